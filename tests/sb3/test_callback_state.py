"""Going on: a second `learn()`, `save` and `load`, resets from outside."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback

from revd.sb3 import IntrinsicRewardCallback
from revd.sb3.checkpoint import Checkpoint
from tests.support.environments import counting_envs
from tests.support.sb3 import flat_parameters, make_model, scripted_reward, trained

N_STEPS, N_ENVS = 6, 2
ROLLOUT = N_STEPS * N_ENVS
TABLE = np.array([[1.0, -1.0]] * N_STEPS)
# Episodes of seven and five steps run across the rollouts of six.
LENGTHS = ((7,), (5,))
SETTINGS: dict[str, dict[str, Any]] = {
    "revd": {"reward": "revd"},
    "revd-episode": {"reward": "revd", "boundary": "episode", "normalize": "rms"},
    "revd-warm-up": {"reward": "revd", "normalize_observations": True, "warmup": 30},
    "re3-episode": {"reward": "re3", "boundary": "episode", "decay_per": "step", "decay": 0.01},
    "ride": {"reward": "ride", "normalize": "rms", "batch_size": 5},
    "mixture": {"reward": ["revd", "ride"], "ride": {"batch_size": 5}, "normalize": "rms"},
    "ride-frozen": {"reward": "ride", "inverse": False},
    "auto": {"reward": "revd", "weight": "auto", "strength": 0.5},
    "auto-warm-up": {"reward": "re3", "weight": "auto", "normalize_observations": True, "warmup": 30},
    "auto-ride": {"reward": "ride", "weight": "auto", "decay_per": "step", "decay": 0.01},
    "auto-without-encoder": {"reward": "noise", "weight": "auto"},
    "auto-alone": {"reward": "revd", "weight": "auto", "extrinsic_weight": 0.0},
}


def make_callback(settings: dict[str, Any]) -> IntrinsicRewardCallback:
    size = {"embedding_size": 4} if settings.get("reward", "revd") in ("revd", "re3", "ride") else {}
    return IntrinsicRewardCallback(**{"weight": 1.0, "decay": 0.1, **size, **settings})


def new_model(algo: str = "PPO", n_envs: int = N_ENVS, **arguments: Any) -> Any:
    return make_model(algo, counting_envs(n_envs, lengths=LENGTHS, truncate=True), n_steps=N_STEPS, **arguments)


def learn(model: Any, callback: Any, rollouts: int, *, reset: bool = False) -> Any:
    return model.learn(rollouts * N_STEPS * model.n_envs, callback=callback, reset_num_timesteps=reset)


def assert_same_state(first: IntrinsicRewardCallback, second: IntrinsicRewardCallback) -> None:
    one, other = first.checkpoint(), second.checkpoint()
    assert one.values == other.values
    assert one.tensors.keys() == other.tensors.keys()
    for name, tensor in one.tensors.items():
        torch.testing.assert_close(other.tensors[name], tensor, rtol=0, atol=0, equal_nan=True, msg=name)


@pytest.mark.parametrize("algo", ["PPO", "RecurrentPPO"])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_two_calls_of_learn_equal_one(settings: dict[str, Any], algo: str) -> None:
    whole_callback, parts_callback = make_callback(settings), make_callback(settings)
    whole = learn(new_model(algo), whole_callback, 6, reset=True)
    parts = learn(new_model(algo), parts_callback, 3, reset=True)
    reward = parts_callback.reward
    learn(parts, parts_callback, 3)
    assert parts_callback.reward is reward
    assert_same_state(whole_callback, parts_callback)
    assert torch.equal(flat_parameters(whole), flat_parameters(parts))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_saved_and_loaded_it_resumes_bit_by_bit(settings: dict[str, Any], when: str, tmp_path: Path) -> None:
    """The model is trained on with another callback that loads the first one's file."""
    whole_callback, saved, loaded = (make_callback(settings) for _ in range(3))
    whole = learn(new_model(), whole_callback, 6, reset=True)
    if when == "after":
        # It has a past of its own, with other weights and memories, which must be forgotten.
        learn(new_model(gamma=0.5), loaded, 2, reset=True)
    parts = learn(new_model(), saved, 3, reset=True)
    saved.save(tmp_path / "callback")
    loaded.load(tmp_path / "callback")
    learn(parts, loaded, 3)
    assert_same_state(whole_callback, loaded)
    assert torch.equal(flat_parameters(whole), flat_parameters(parts))
    assert [entry.name for entry in tmp_path.iterdir()] == ["callback"]


def test_loading_restores_the_counts(tmp_path: Path) -> None:
    first = make_callback({})
    learn(new_model(), first, 4, reset=True)
    first.save(tmp_path / "callback")
    second = make_callback({})
    second.load(tmp_path / "callback")
    learn(new_model(), second, 1, reset=True)
    assert (second.rollouts, second.steps) == (5, 5 * ROLLOUT)
    assert second.latest["weight"] == pytest.approx(0.9**5, rel=1e-12)
    assert int(second.reward.calls) == 5
    assert second.latest["bonus_mean"] > 0  # compared with the segment in the file, though it is its first rollout


def test_a_file_of_a_fixed_weight_lets_an_automatic_one_learn_anew(tmp_path: Path) -> None:
    """Also if the callback had a weight before: it would be that of another training."""
    fixed, fresh, used = make_callback({}), make_callback({"weight": "auto"}), make_callback({"weight": "auto"})
    learn(new_model(), fixed, 3, reset=True)
    fixed.save(tmp_path / "callback")
    learn(new_model(gamma=0.5), used, 2, reset=True)
    models = []
    for callback in (fresh, used):
        callback.load(tmp_path / "callback")
        models.append(learn(new_model(), callback, 2, reset=True))
        assert int(callback.weighting.automatic.critic.fits) == 2
    assert (fresh.rollouts, fresh.latest["strength"]) == (5, pytest.approx(0.1 * 0.9**5))
    assert_same_state(fresh, used)
    assert torch.equal(*map(flat_parameters, models))


def test_a_file_of_an_automatic_weight_fits_a_fixed_one(tmp_path: Path) -> None:
    """Nothing but the automatic weight is lost."""
    automatic, fixed = make_callback({"weight": "auto"}), make_callback({})
    learn(new_model(), automatic, 3, reset=True)
    automatic.save(tmp_path / "callback")
    fixed.load(tmp_path / "callback")
    learn(new_model(), fixed, 1, reset=True)
    assert (fixed.rollouts, int(fixed.reward.calls)) == (4, 4)
    assert fixed.latest["weight"] == pytest.approx(0.9**4, rel=1e-12)
    assert fixed.checkpoint().weighting == {}


def caught(callback: Any, model: Any, rollouts: int) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        learn(model, callback, rollouts, reset=True)
    return [str(entry.message) for entry in found]


@pytest.mark.parametrize("old", [False, True], ids=["with its warnings", "old"])
def test_a_resumed_training_warns_when_the_whole_one_would_have_and_once(old: bool, tmp_path: Path) -> None:
    """The bonus is negligible for 20 rollouts; the first file has seen twelve of them, an old one does not say so."""

    def resumed(source: str | None, rollouts: int) -> tuple[list[str], IntrinsicRewardCallback]:
        model = new_model("A2C")
        callback = IntrinsicRewardCallback(scripted_reward(model, 1e-3 * TABLE), weight=0.1)
        if source is not None:
            callback.load(tmp_path / source)
        return caught(callback, model, rollouts), callback

    said, first = resumed(None, 12)
    checkpoint = first.checkpoint()
    (replace(checkpoint, warnings=None) if old else checkpoint).write(tmp_path / "first")
    assert said == []
    said, _ = resumed("first", 7)
    assert said == []
    said, second = resumed("first", 8)
    assert len(said) == (0 if old else 1)
    if not old:
        assert "does not steer the policy" in said[0]
        assert "(20 rollouts)" in said[0]
        second.save(tmp_path / "second")
        assert resumed("second", 25)[0] == [], "it has been said"


def test_a_file_is_loaded_once(tmp_path: Path) -> None:
    first, second = make_callback({}), make_callback({})
    learn(new_model(), first, 2, reset=True)
    first.save(tmp_path / "callback")
    second.load(tmp_path / "callback")
    model = learn(new_model(), second, 1, reset=True)
    learn(model, second, 1)
    assert (second.rollouts, int(second.reward.calls)) == (4, 4)


def test_loading_into_an_instance(tmp_path: Path) -> None:
    model = new_model()
    first = IntrinsicRewardCallback(scripted_reward(model))
    learn(model, first, 2, reset=True)
    first.save(tmp_path / "callback")
    second = IntrinsicRewardCallback(scripted_reward(model))
    second.load(tmp_path / "callback")
    assert (second.rollouts, second.steps, int(second.reward.calls)) == (2, 2 * ROLLOUT, 2)


def test_there_is_nothing_to_save_before_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing to save before training has started"):
        make_callback({}).save(tmp_path / "callback")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "n_envs", "message"),
    [
        ({"reward": "re3"}, N_ENVS, "holds the state of REVD, this callback's reward is RE3"),
        ({"embedding_size": 5}, N_ENVS, "saved state of REVD does not fit this reward's parameters"),
        ({}, N_ENVS + 1, r"REVD does not fit .*: n_envs was 2, here it is 3; use 2 environments"),
    ],
    ids=["method", "size", "n_envs"],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_that_does_not_fit(
    settings: dict[str, Any], n_envs: int, message: str, when: str, tmp_path: Path
) -> None:
    first = make_callback({})
    learn(new_model(), first, 2, reset=True)
    first.save(tmp_path / "callback")
    callback, model = make_callback(settings), new_model(n_envs=n_envs)
    if when == "before":
        callback.load(tmp_path / "callback")
        with pytest.raises(ValueError, match=message):
            learn(model, callback, 1, reset=True)
        assert model.get_env().get_attr("steps_taken") == [0] * n_envs
        return
    learn(model, callback, 1, reset=True)
    with pytest.raises(ValueError, match=message):
        callback.load(tmp_path / "callback")
    learn(model, callback, 1)
    assert callback.rollouts == 2


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(b"PK")
    callback = make_callback({})
    with pytest.raises(ValueError, match=r"is not a file that IntrinsicRewardCallback\.save wrote"):
        callback.load(tmp_path / "model.zip")
    learn(new_model(), callback, 1, reset=True)
    assert callback.rollouts == 1


def test_another_model_of_other_sizes_is_refused() -> None:
    callback = make_callback({})
    learn(new_model(), callback, 1, reset=True)
    with pytest.raises(ValueError, match="made for n_envs 2, not 3"):
        learn(new_model(n_envs=3), callback, 1, reset=True)


def test_episodes_end_where_learn_resets_the_environments() -> None:
    model = new_model()
    reward = scripted_reward(model)
    callback = IntrinsicRewardCallback(reward)
    learn(model, callback, 2, reset=True)
    learn(model, callback, 2, reset=True)
    learn(model, callback, 2)
    # Before rollouts 0 and 2; not before 4, where the third learn() continued running episodes.
    assert reward.ended_before == [0, 2]
    assert callback.rollouts == 6


def test_episodes_continue_where_only_some_have_ended() -> None:
    """Every rollout starts with a new episode of environment 0, the fourth also with one of environment 1."""
    model = make_model("PPO", counting_envs(2, lengths=((6,), (9,))), n_steps=N_STEPS)
    reward = scripted_reward(model)
    learn(model, IntrinsicRewardCallback(reward), 5, reset=True)
    assert reward.ended_before == [0, 3]


def test_the_memory_of_an_episode_ends_with_a_reset() -> None:
    callback = make_callback({"reward": "re3", "boundary": "episode"})
    model = new_model()
    learn(model, callback, 1, reset=True)
    # Column 0 has run for six steps; column 1 has ended an episode after five.
    assert callback.reward.memory.running_lengths.tolist() == [6, 1]
    learn(model, callback, 1, reset=True)
    # The counting environments begin new episodes: six steps of one, five and one of the other.
    assert callback.reward.memory.running_lengths.tolist() == [6, 1]
    learn(model, callback, 1)
    # Column 0's episode ended one step later, five steps of the next have followed; column 1's ended after five.
    assert callback.reward.memory.running_lengths.tolist() == [5, 2]


class StopAfter(BaseCallback):
    """Ends training in the middle of a rollout."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls

    def _on_step(self) -> bool:
        return self.n_calls < self.calls


def test_a_rollout_cut_short_is_dropped() -> None:
    model = new_model()
    reward = scripted_reward(model, np.ones((N_STEPS, N_ENVS)))
    callback = IntrinsicRewardCallback(reward)
    learn(model, [callback, StopAfter(N_STEPS + 3)], 4, reset=True)
    assert callback.rollouts == 1
    learn(model, callback, 2, reset=True)
    assert callback.rollouts == 3
    assert [tuple(rollout.dones.shape) for rollout in reward.rollouts] == [(N_STEPS, N_ENVS)] * 3


def test_a_state_that_waits_for_the_training_is_counted_and_saved_again(tmp_path: Path) -> None:
    trained_one = IntrinsicRewardCallback("re3", k=2)
    trained(trained_one)
    # The folders are made, as SB3's model.save does.
    trained_one.save(tmp_path / "new" / "folder" / "bonus")
    waiting = IntrinsicRewardCallback("re3", k=2)
    waiting.load(tmp_path / "new" / "folder" / "bonus")
    assert (waiting.rollouts, waiting.steps) == (trained_one.rollouts, trained_one.steps) == (3, 36)
    waiting.save(tmp_path / "again")
    first, second = (Checkpoint.read(tmp_path / path) for path in ("new/folder/bonus", "again"))
    assert first.values == second.values
    assert first.tensors.keys() == second.tensors.keys()
    assert all(torch.equal(first.tensors[name], second.tensors[name]) for name in first.tensors)


class _StopAfter(BaseCallback):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def _on_step(self) -> bool:
        return self.n_calls != self.steps


def test_an_abandoned_rollout_ends_the_episodes_of_the_memory() -> None:
    model = make_model("PPO", counting_envs(2, lengths=((7,), (5,))), n_steps=6)
    reward = scripted_reward(model)
    callback = IntrinsicRewardCallback(reward)
    model.learn(1_000, callback=[callback, _StopAfter(9)])
    assert len(reward.rollouts) == 1
    assert reward.ended_before == [0]
    model.learn(24, callback=callback, reset_num_timesteps=False)
    assert reward.ended_before == [0, 1], "before the second rollout that it is shown, and not again"


def test_a_state_loaded_after_an_abandoned_rollout_keeps_its_episodes(tmp_path: Path) -> None:
    model = make_model("PPO", counting_envs(2, lengths=((7,), (5,))), n_steps=6)
    reward = scripted_reward(model)
    callback = IntrinsicRewardCallback(reward)
    model.learn(12, callback=callback)
    callback.save(tmp_path / "bonus")
    model.learn(1_000, callback=[callback, _StopAfter(3)], reset_num_timesteps=False)
    callback.load(tmp_path / "bonus")
    model.learn(12, callback=callback, reset_num_timesteps=False)
    assert reward.ended_before == [0], "only before the first rollout, whose environments were reset"
