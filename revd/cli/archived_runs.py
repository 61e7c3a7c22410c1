"""Leaving out the runs of a suite that archives already hold."""

from collections.abc import Sequence
from pathlib import Path

from revd.runs.config import TrainConfig


def without_archived(configs: Sequence[TrainConfig], archives: Sequence[Path]) -> list[TrainConfig]:
    """The trainings of which no archive holds a finished run.

    A ValueError if an archive holds a run of the same name with other settings, as for a run directory.
    """
    if not archives:
        return list(configs)
    from revd.analysis.reading.archive import read_archive

    for path in archives:
        if not path.exists():
            raise ValueError(f"the archive {str(path)!r} does not exist")
    finished = [run for path in archives for run in read_archive(path) if run.is_comparable]
    archived = {(run.task, run.directory.name): (run.directory, run.settings) for run in finished}
    left = []
    for config in configs:
        directory, settings = archived.get((config.task, config.directory.name), (None, {}))
        earlier = None if directory is None else TrainConfig.from_dict(settings)
        if earlier is not None and (differences := earlier.differences(config)):
            raise ValueError(f"{str(directory)!r} is a run with other settings ({'; '.join(differences)})")
        if earlier is None or earlier.steps != config.steps:
            left.append(config)
    return left
