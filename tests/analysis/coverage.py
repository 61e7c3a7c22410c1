"""Runs and visits, made by hand."""

import numpy as np

from revd.coverage import Axis
from revd.coverage.keys import pair_keys
from revd.coverage.stages import Stage, Visits
from revd.coverage.state import CounterState, write_visits
from tests.analysis.support import write_run

FREE = (Axis(name="x", whole=True), Axis(name="y", whole=True, downwards=True))


def make_visits(stages, *, plane=FREE):
    """Visits of (steps, cells, counts)."""
    return Visits(plane=plane, stages=tuple(make_stage(*stage) for stage in stages))


def make_stage(steps, cells, counts):
    return Stage(
        steps=steps,
        distinct=len(cells),
        cells=np.array(cells, np.int32).reshape(-1, 2),
        visits=np.array(counts, np.int64),
    )


def write_counted_run(directory, *, cells=(1, 2), share=None, visits=(), plane=FREE, **settings):
    """A run that had visited so many cells after 100, 200, … steps; with the stages of its visits."""
    write_run(directory, **settings)
    columns = ["time/total_timesteps", "exploration/coverage", "exploration/coverage_share"]
    rows = [f"{100 * (index + 1)},{number},{'' if share is None else share}" for index, number in enumerate(cells)]
    (directory / "progress.csv").write_text("\n".join([",".join(columns), *rows]) + "\n")
    if visits:
        *stages, (steps, last, counts) = visits
        keys = pair_keys(np.array(last, np.int64))
        order = np.argsort(keys)
        table = (keys[order], np.array(counts, np.int64)[order])
        tables = dict(zip(("keys", "counts", "map_keys", "map_counts"), table * 2, strict=True))
        state = CounterState(
            description="",
            steps=steps,
            tables=tables,
            is_full=(False, False),
            interval=100,
            width=None,
            plane=plane,
            stages=tuple(make_stage(*stage) for stage in stages),
        )
        write_visits(directory / "visits.safetensors", state)
    return directory
