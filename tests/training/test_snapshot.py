import pytest

from revd.training.snapshot import _check_values

GOOD = {
    "sessions": 0,
    "pending": {"train/loss": 0.5, "train/n_updates": 3},
    "optimizer": [{"lr": 1e-3, "amsgrad": False}],
    "counters": {
        "num_timesteps": 64,
        "n_updates": 1,
        "episodes": [{"r": 1.0, "l": 5.0, "t": 0.1}],
        "successes": [True],
    },
    "bonus": {"rollouts": 1, "steps": 64},
}


def test_what_was_written_is_fine():
    _check_values(GOOD)
    _check_values({name: value for name, value in GOOD.items() if name != "bonus"})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sessions": True}, "sessions must be an integer of at least 0, got True"),
        ({"counters": {**GOOD["counters"], "num_timesteps": "64"}}, "num_timesteps must be an integer"),
        ({"counters": {**GOOD["counters"], "n_updates": -1}}, "n_updates must be an integer"),
        ({"counters": {**GOOD["counters"], "successes": ["x"]}}, "successes must be finite numbers, got 'x' under 0"),
        ({"counters": {**GOOD["counters"], "episodes": [{"r": None, "l": 1, "t": 1}]}}, "episodes must be finite"),
        ({"bonus": {"rollouts": 2**63}}, "rollouts of the bonus must be an integer"),
        ({"bonus": {"steps": 1.5}}, "steps of the bonus must be an integer"),
        ({"pending": {"a": 10**400}}, "pending must be finite numbers"),
        ({"optimizer": [{"lr": float("inf")}]}, "optimizer must be finite numbers, got inf under 'lr'"),
    ],
)
def test_other_types_are_refused(wrong, said):
    with pytest.raises(ValueError, match=f"^the checkpoint's {said}"):
        _check_values({**GOOD, **wrong})


@pytest.mark.parametrize("wrong", [{"pending": 3}, {"optimizer": 3}, {"counters": 3}, {"bonus": 3}])
def test_other_structures_are_refused(wrong):
    with pytest.raises((KeyError, TypeError, AttributeError)):
        _check_values({**GOOD, **wrong})
