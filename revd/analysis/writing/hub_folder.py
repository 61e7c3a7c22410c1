"""A run as a folder for the Hugging Face hub: the model card, the model, its statistics, its config and its film."""

import json
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from revd.analysis.reading.evaluations import last_evaluation
from revd.analysis.reading.runs import RecordedRun, load_run
from revd.analysis.writing.model_card import (
    MARK,
    NORMALIZATION,
    Result,
    card_result,
    exported_model_name,
    model_card,
    model_name,
)
from revd.storage.atomic import make_directory, replacing, write_whole
from revd.storage.plain_file import read_plain_text
from revd.storage.run_files import CONFIG, EVALUATIONS, FILM, MODEL, VEC_NORMALIZE

CARD = "README.md"
RESULTS = "results.json"
#: The film of a run and its name on the hub, which shows `replay.mp4` beside the card.
_FILMS = {"watch.mp4": "replay.mp4", FILM: "replay.gif"}
#: Settings that say where files of this machine lie.
_PATHS = ("output", "init_from")


def write_hub_folder(directory: Path, output: Path) -> list[str]:
    """Write the folder of a finished run, and return the names of its files.

    Raises:
        ValueError: The run is unfinished, damaged or has no return.
        FileExistsError: The output is neither empty nor an earlier export, or one whose model is not known.
    """
    run = load_run(directory)
    _require_finished(run)
    result = card_result(run, last_evaluation(directory / EVALUATIONS))
    _require_free(output)
    earlier = _earlier_files(output)
    copies = _copies(run)
    film = next((name for name in _FILMS.values() if name in copies), None)
    card = model_card(run, result, normalized=NORMALIZATION in copies, film=film)
    make_directory(output)
    for stale in earlier:
        (output / stale).unlink(missing_ok=True)
    # Before the model, whose name follows from it: a later export finds the model even if this one is killed.
    write_whole(output / CONFIG, _config(run).encode())
    for name, source in copies.items():
        with replacing(output / name) as path:
            shutil.copyfile(source, path)
    for name, text in {RESULTS: _results(result), CARD: card}.items():
        write_whole(output / name, text.encode())
    return [CARD, *copies, CONFIG, RESULTS]


def _require_finished(run: RecordedRun) -> None:
    if not run.is_comparable:
        problem = f"is damaged: {run.damage}" if run.finished else f"has not finished (it is {run.state})"
        raise ValueError(f"the run in {str(run.directory)!r} {problem}")
    if not (run.directory / MODEL).is_file():
        raise ValueError(f"the run in {str(run.directory)!r} has no {MODEL}")


def _require_free(output: Path) -> None:
    """Raise a FileExistsError unless the output is new, empty or an earlier export."""
    if not output.exists():
        return
    if not output.is_dir():
        raise FileExistsError(f"output {str(output)!r} is a file; it must be a directory")
    card = output / CARD
    ours = card.is_file() and MARK in card.read_text(errors="replace")
    if any(output.iterdir()) and not ours:
        raise FileExistsError(
            f"output {str(output)!r} is neither empty nor an earlier export; choose another directory"
        )


def _earlier_files(output: Path) -> list[str]:
    """The files of an earlier export that this one may not overwrite. Its config says what its model was called."""
    if not output.exists() or not any(output.iterdir()):
        return []
    try:
        config = json.loads(read_plain_text(output / CONFIG))
        model = exported_model_name(config if isinstance(config, dict) else {})
    except (OSError, ValueError, RecursionError) as error:
        raise FileExistsError(
            f"output {str(output)!r} is an earlier export whose {CONFIG} does not tell its model ({error}); choose "
            "another directory"
        ) from error
    return [f"{model}.zip", NORMALIZATION, *_FILMS.values()]


def _copies(run: RecordedRun) -> Mapping[str, Path]:
    """The files that are copied, by their names on the hub; of two films the video."""
    copies = {f"{model_name(run)}.zip": MODEL, NORMALIZATION: VEC_NORMALIZE}
    films = [(name, film) for film, name in _FILMS.items() if (run.directory / film).is_file()]
    copies |= dict(films[:1])
    found = {name: run.directory / file for name, file in copies.items() if (run.directory / file).is_file()}
    for path in found.values():
        if path.is_symlink():
            raise ValueError(f"{str(path)!r} is a symbolic link: a file from elsewhere must not be published")
    return found


def _config(run: RecordedRun) -> str:
    values = {name: value for name, value in run.settings.items() if name not in _PATHS}
    return json.dumps(values, indent=2) + "\n"


def _results(result: Result) -> str:
    """In the words of huggingface_sb3."""
    values = {
        "mean_reward": result.mean,
        "std_reward": result.std,
        "is_deterministic": result.deterministic,
        "n_eval_episodes": result.episodes,
        "eval_datetime": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return json.dumps(values, indent=2) + "\n"
