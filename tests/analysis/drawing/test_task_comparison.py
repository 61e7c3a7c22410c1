from revd.analysis.drawing.task_comparison import task_comparison_figure
from revd.analysis.statistics.task_results import task_results
from revd.analysis.statistics.verdicts import verdicts
from tests.analysis.support import make_runs


def figure_of(folder, *, seeds):
    runs = make_runs(
        folder,
        *({"seed": seed, "returns": [seed] * 100} for seed in range(seeds)),
        *({"seed": seed, "returns": [seed + 1.5] * 100, "method": "PPO+REVD"} for seed in range(seeds)),
    )
    return task_comparison_figure(task_results(runs), verdicts(runs, threshold=1.0))


def test_a_bar_for_each_method_and_for_each_verdict(tmp_path):
    figure = figure_of(tmp_path, seeds=3)
    finals, chances = figure.findobj(lambda artist: hasattr(artist, "get_xlim"))
    assert [label.get_text() for label in finals.get_yticklabels()] == ["PPO", "PPO+REVD"]
    assert [label.get_text().replace("\n", " ") for label in chances.get_yticklabels()] == [
        "PPO+REVD over PPO: steps to 1",
        "PPO+REVD over PPO: final return",
    ]
    low, width = finals.patches[1].get_x(), finals.patches[1].get_width()
    assert (low, low + width) == (1.5, 3.5), "the interval of three seeds goes from the lowest to the highest"
    # Of nine pairs, 1.5 > 0 and 1, 2.5 and 3.5 > all: eight wins.
    assert chances.collections[1].get_segments()[0][0, 0] == 8 / 9
    assert chances.get_xlim() == (-0.02, 1.02)


def test_one_seed_has_no_bars_but_a_reason(tmp_path):
    finals, chances = figure_of(tmp_path, seeds=1).findobj(lambda artist: hasattr(artist, "get_xlim"))
    assert len(finals.collections) == 2
    assert [text.get_text() for text in chances.texts] == ["fewer than 2 seeds"]
