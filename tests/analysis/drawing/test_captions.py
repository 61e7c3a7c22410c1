import pytest

from revd.analysis.drawing.captions import comparison_caption, curve_caption, plural, pretty_task
from revd.analysis.reading.runs import load_runs
from revd.analysis.statistics.figure_data import analyse_runs
from tests.analysis.support import write_run


@pytest.mark.parametrize(
    ("task", "title"),
    [
        ("bullet/half-cheetah", "Half Cheetah"),
        ("bullet/walker-2d", "Walker 2D"),
        ("minigrid/door-key-8x8", "Door Key 8x8"),
        ("minigrid/key-corridor-s3r1", "Key Corridor S3R1"),
        ("MountainCar-v0", "MountainCar-v0"),
    ],
)
def test_titles_of_tasks(task, title):
    assert pretty_task(task) == title


def test_the_caption_of_curves_has_the_number_of_seeds(tmp_path):
    for seed, method in ((1, "PPO"), (2, "PPO"), (1, "PPO+REVD")):
        write_run(tmp_path / f"{method}{seed}", seed=seed, method=method, returns=[1] * 20)
    (data,) = analyse_runs(load_runs(tmp_path)).figures
    assert "(1 to 2 of each method and task)" in curve_caption(data)


def test_five_seeds_are_enough(tmp_path):
    for seed in range(5):
        write_run(tmp_path / str(seed), seed=seed, returns=[seed] * 9)
    (data,) = analyse_runs(load_runs(tmp_path)).figures
    assert "too narrow" not in comparison_caption(data.aggregate)


def test_plural():
    assert (plural(1, "run"), plural(0, "run"), plural(2, "run")) == ("1 run", "0 runs", "2 runs")
