"""Writing an archive of runs, which `revd.analysis.reading.archive` reads."""

import csv
import gzip
import io
import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from revd.analysis.reading.archive import COLUMNS, ENDING, FORMAT
from revd.analysis.reading.commands import repeat_command
from revd.analysis.reading.runs import RecordedRun
from revd.analysis.reading.searches import search_directory
from revd.analysis.statistics.bins import Bins, bin_episodes
from revd.analysis.writing.merged_runs import merge_runs
from revd.storage.atomic import make_directory, write_whole

#: What an archive keeps of `run.json`. Paths of the machine, as in its command and its output, are left out.
_ORIGIN = ("started", "finished", "python", "platform", "processor", "versions", "git")


def write_archive(runs: Sequence[RecordedRun], path: Path) -> Path:
    """Write runs into one compressed file, one of each training; equal runs give equal bytes."""
    check_archive_path(path)
    searched = next((run.directory for run in runs if search_directory(run.directory) is not None), None)
    if searched is not None:
        raise ValueError(f"{str(searched)!r} is a trial of a search; the trials of searches cannot be archived")
    named = merge_runs(runs).named
    bins = {name: bin_episodes(run.episodes, run.total_steps) for name, run in named.items()}
    text = io.StringIO()
    text.write(f"{FORMAT}\n")
    for name, run in named.items():
        text.write(f"# {json.dumps(_header(name, run, bins[name]), allow_nan=False)}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, run in named.items():
        writer.writerows(_rows(name, run, bins[name]))
    make_directory(path.parent)
    write_whole(path, _compress(text.getvalue().encode()))
    return path


def check_archive_path(path: Path) -> None:
    """Refuse a path whose name no reader would take for an archive."""
    if not path.name.endswith(ENDING):
        raise ValueError(f"output {str(path)!r} must end in {ENDING}: an archive is a compressed CSV file")


def _header(name: str, run: RecordedRun, bins: Bins) -> dict[str, Any]:
    repeat = repeat_command(run.origin.get("repeat"))
    return {
        "run": name,
        "task": run.task,
        "method": run.method,
        "seed": run.seed,
        "steps": run.total_steps,
        "reached": run.reached,
        "state": run.state,
        "sparse": run.sparse,
        "error": run.error,
        "damage": run.damage,
        "episodes": int(bins.counts.sum()),
        "settings": {key: value for key, value in run.settings.items() if key != "output"},
        "origin": {key: _origin(run, key) for key in _ORIGIN if key in run.origin} | _known(repeat=repeat),
        "seconds": {part: round(value, 3) for part, value in run.seconds.items()},
        "bonus": {part: float(f"{value:.6g}") for part, value in run.bonus.items() if math.isfinite(value)},
    }


def _origin(run: RecordedRun, key: str) -> object:
    """An entry of `run.json`; of the platform only the system and the processor, not the build of the kernel."""
    value: object = run.origin[key]
    return re.sub(r"^(\w+)-.*?-(x86_64|aarch64|arm64|AMD64)\b.*$", r"\1-\2", str(value)) if key == "platform" else value


def _known(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value is not None}


def _rows(name: str, run: RecordedRun, bins: Bins) -> Iterator[tuple[object, ...]]:
    for steps, count, mean in zip(bins.steps, bins.counts, bins.means, strict=True):
        # Nine digits: a final return made of these means is right to eight.
        yield name, run.task, run.method, run.seed, steps, count, f"{mean:.9g}"


def _compress(data: bytes) -> bytes:
    """Without the name and the time that gzip files usually hold."""
    compressed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=compressed, mtime=0) as file:
        file.write(data)
    return compressed.getvalue()
