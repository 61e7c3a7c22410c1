"""Runs that fill every section of a page."""

from tests.analysis.support import write_json, write_run

GIF = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;"  # noqa: E501
SECONDS = {"environment": 10.0, "acting": 30.0, "bonus": 20.0, "update": 35.0, "other": 5.0}


def write_runs(folder):
    """Two methods on MountainCar and CartPole, two seeds each, with logs, times and a film."""
    for seed in (1, 2):
        for task, first in (("MountainCar-v0", -200), ("CartPole-v1", 20)):
            plain = [first + (index + seed) / 2 for index in range(100)]
            status = {"seconds": SECONDS}
            write_run(folder / f"{task}-a{seed}", seed=seed, task=task, returns=plain, status=status)
            better = [first + index + seed for index in range(100)]
            named = {"seed": seed, "task": task, "method": "PPO+REVD", "status": status}
            run = write_run(folder / f"{task}-b{seed}", returns=better, **named)
            (run / "progress.csv").write_text(progress(seed))
    (folder / "CartPole-v1-b1" / "watch.gif").write_bytes(GIF)
    return folder


def progress(seed, *, rows=100):
    """Ten steps a rollout; the first has no weight yet."""
    lines = ["time/total_timesteps,exploration/weight,exploration/bonus_share,exploration/time_fraction"]
    lines += [f"{10 * row},{(row - 1) * seed / 100},{row / 200},0.1" for row in range(1, rows + 1)]
    return "\n".join(lines) + "\n"


def write_hostile_run(folder, text):
    """A run that says `text` wherever it can."""
    status = {"error": text, "seconds": SECONDS}
    run = write_run(folder, task=text, method=f"PPO+{text}", returns=[1.0] * 20, status=status)
    write_json(run / "run.json", {"repeat": f"revd train --task '{text}'", "platform": text, "versions": {text: text}})
    (run / f"{text.replace('/', '')}.gif").write_bytes(GIF)
    return run
