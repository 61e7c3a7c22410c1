import numpy as np
import pytest

from revd.episodes import Episodes, final_return, last_part, part_returns, read_episodes


def ended(*rows):
    steps, returns = np.array(rows, dtype=float).reshape(-1, 2).T
    return Episodes(steps=steps, returns=returns)


def naive_parts(rows, steps):
    """By the definition: ten loops over all episodes."""
    means = []
    for part in range(10):
        within = [value for end, value in rows if part * steps / 10 < end <= (part + 1) * steps / 10]
        means.append(sum(within) / len(within) if within else (means[-1] if means else None))
    return means


def test_a_part_is_the_mean_of_the_episodes_that_ended_in_it():
    rows = [(5, 1.0), (10, 3.0), (11, 7.0), (20, 9.0), (95, 5.0), (101, 1000.0)]
    assert part_returns(ended(*rows), 100) == [2.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 8.0, 5.0]


@pytest.mark.parametrize("steps", [7, 100, 333])
def test_parts_equal_a_naive_loop(steps):
    generator = np.random.default_rng(steps)
    ends = np.sort(generator.integers(1, 400, 60))
    rows = [(float(end), float(value)) for value, end in enumerate(ends)]
    expected = naive_parts(rows, steps)
    assert part_returns(ended(*rows), steps) == pytest.approx(expected)
    assert final_return(ended(*rows), steps) == pytest.approx(expected[-1])


def test_parts_before_the_first_episode_have_no_return():
    assert part_returns(ended((35, 2.0)), 100) == [None, None, None, *[2.0] * 7]
    assert final_return(ended(), 100) is None


def test_the_final_return_is_of_the_last_tenth_of_the_requested_steps():
    episodes = ended((90, 0.0), (91, 2.0), (100, 4.0), (101, 1000.0))
    assert (final_return(episodes, 100), last_part(episodes, 100)) == (3.0, 10)


def test_without_an_episode_there_it_is_of_the_last_tenth_with_one():
    episodes = ended((5, 1.0), (65, 2.0), (69, 4.0), (105, 9.0))
    assert (final_return(episodes, 100), last_part(episodes, 100)) == (3.0, 7)
    assert last_part(ended((105, 9.0)), 100) is None


def write(folder, text):
    path = folder / "episodes.csv"
    path.write_text(text)
    return path


def test_invalid_rows_are_reported_and_left_out(tmp_path):
    rows = "10,1,5,0\n20,nan,5,0\n30,,5,0\n40,inf,5,0\n50\n60,oops,x,0\n55,1,5,0,9\n70,2,7,1\n69,3,5,0\n"
    found = read_episodes(write(tmp_path, "steps,return,length,env\n" + rows))
    np.testing.assert_array_equal(found.episodes.steps, [10, 70])
    np.testing.assert_array_equal(found.episodes.returns, [1, 2])
    np.testing.assert_array_equal(found.lengths, [5, 7])
    np.testing.assert_array_equal(found.envs, [0, 1])
    assert found.lines == [2, 9]
    assert found.faults == [
        "line 3 has no finite number as return",
        "line 4 has no finite number as return",
        "line 5 has no finite number as return",
        "line 6 is not a row of 4 values",
        "line 7 has no finite number as return and length",
        "line 8 is not a row of 4 values",
        "line 10 goes back from 70 steps to 69",
    ]
    assert not found.is_cut


def test_an_incomplete_last_row_is_reported_but_no_fault(tmp_path):
    found = read_episodes(write(tmp_path, "steps,return,length,env\n10,1,5,0\n20,20"))
    np.testing.assert_array_equal(found.episodes.steps, [10])
    assert (found.is_cut, found.faults) == (True, [])


@pytest.mark.parametrize(("text", "is_cut"), [("", False), ("steps,ret", True), ("steps,return,length,env\n", False)])
def test_a_new_file_has_no_episodes(tmp_path, text, is_cut):
    found = read_episodes(write(tmp_path, text))
    assert (found.episodes.returns.shape, found.is_cut, list(found.faults)) == ((0,), is_cut, [])


def test_without_a_file_there_are_no_episodes(tmp_path):
    assert read_episodes(tmp_path / "episodes.csv").episodes.returns.shape == (0,)


def test_other_columns_than_those_of_episodes_are_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"episodes.csv has no column 'return' in its first line"):
        read_episodes(write(tmp_path, "steps,b\n1,2\n"))


def test_lengths_are_optional(tmp_path):
    found = read_episodes(write(tmp_path, "steps,return\n1,2\n"))
    assert np.isnan(found.lengths).all()
    assert not found.faults
