"""Rollouts from two groups of environments, of which one steps while the other's actions are computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from revd.fast.env_groups import as_grouped, concatenate_groups
from revd.sb3 import FastA2C, FastPPO
from revd.training.checked_vec_env import CheckedVecEnv
from revd.training.env_checks import EnvironmentFault
from tests.fast.support import CONTINUOUS, DISCRETE, array, build, capturing

N_ENVS, N_STEPS, LENGTH = 5, 16, 7


class Clocks(VecEnv):
    """Environment e shows (e, its step, whether it has just begun); the reward is a number made of both and the action.

    Episodes have seven steps and end in turn by termination and by time limit. `log` holds who did what, and when.
    """

    def __init__(self, action_space: spaces.Space[Any] = DISCRETE, fails_at: int | None = None) -> None:
        super().__init__(N_ENVS, spaces.Box(0, 1e6, (3,), np.float32), action_space)
        self.groups = [slice(0, 2), slice(2, N_ENVS)]
        self.log: list[str] = []
        self._time = np.zeros(N_ENVS, int)
        self._sent: dict[int, Any] = {}
        self._results: dict[int, Any] = {}
        self.fails_at = fails_at
        self.failure: BaseException = OSError("the clock has stopped")

    def reset(self) -> Any:
        self._sent.clear()
        self._time[:] = 0
        return self._shown(slice(0, N_ENVS))

    def send(self, group: int, actions: Any) -> None:
        assert group not in self._sent
        self.log.append(f"send {group}")
        self._sent[group] = actions

    def receive(self, group: int) -> Any:
        self.log.append(f"receive {group}")
        actions, part = self._sent.pop(group), self.groups[group]
        if self.fails_at is not None and self._time[part.stop - 1] == self.fails_at:
            raise self.failure
        numbers = np.array([float(np.sum(action)) for action in actions])
        rewards = (numbers + self._time[part] + 1000 * np.arange(part.start, part.stop)).astype(np.float32)
        self._time[part] += 1
        dones = self._time[part] % LENGTH == 0
        late = self._time[part] % (2 * LENGTH) == LENGTH
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": bool(flag)} for flag in dones & late]
        shown = self._shown(part)
        for index in np.flatnonzero(dones):
            infos[index]["terminal_observation"] = shown[index] + 0.5
            infos[index]["episode"] = {"r": 1.0, "l": LENGTH, "t": 0.0}
        self._results[group] = rewards, dones, infos
        return shown

    def step_results(self, group: int) -> Any:
        self.log.append(f"step_results {group}")
        return self._results.pop(group)

    def step_async(self, actions: Any) -> None:
        for group, part in enumerate(self.groups):
            self.send(group, actions[part])

    def step_wait(self) -> Any:
        observations = [self.receive(group) for group in range(2)]
        return concatenate_groups(observations, [self.step_results(group) for group in range(2)])

    def _shown(self, part: slice) -> Any:
        envs, time = np.arange(N_ENVS)[part], self._time[part]
        return np.stack([envs, time, time % LENGTH == 0], axis=1).astype(np.float32)

    def close(self) -> None: ...

    def get_attr(self, attr_name: str, indices: Any = None) -> Any:
        return [None for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any: ...

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> Any:
        return [False for _ in self._get_indices(indices)]


class Keeper(BaseCallback):
    """Copies what it is shown, and stops or raises at a step."""

    def __init__(self, stop_at: int | None = None, error: BaseException | None = None) -> None:
        super().__init__()
        self.stop_at = stop_at
        self.error = error
        self.seen: list[dict[str, Any]] = []
        self.ends: list[Any] = []
        self.rollouts: list[dict[str, Any]] = []

    def _on_step(self) -> bool:
        env: Any = self.training_env
        getattr(env, "log", []).append("callback")
        names = ("obs_tensor", "actions", "clipped_actions", "values", "log_probs", "new_obs", "rewards", "dones")
        self.seen.append({name: array(self.locals[name]) for name in names})
        if len(self.seen) != self.stop_at:
            return True
        if self.error is not None:
            raise self.error
        return False

    def _on_rollout_end(self) -> None:
        buffer: Any = self.model.rollout_buffer
        names = ("observations", "actions", "rewards", "episode_starts", "values", "log_probs", "advantages", "returns")
        self.rollouts.append({name: array(getattr(buffer, name)) for name in names})
        self.ends.append((array(self.locals["values"]), array(self.locals["dones"])))


def model_of(kind: Any = FastPPO, env: VecEnv | None = None, **arguments: Any) -> Any:
    env = Clocks() if env is None else env
    sizes = {"batch_size": 40, "n_epochs": 1} if issubclass(kind, PPO) else {}
    return build(kind, env, **{"n_steps": N_STEPS, **sizes, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "replayed"), [(FastPPO, False), (FastPPO, True), (FastA2C, False)])
@pytest.mark.parametrize("actions", [DISCRETE, CONTINUOUS], ids=["discrete", "continuous"])
def test_every_environments_own_sequence_is_intact(kind: Any, replayed: bool, actions: Any) -> None:
    model = model_of(kind, Clocks(actions))
    if replayed:
        capturing(model)
    keeper = Keeper()
    model.learn(4 * N_STEPS * N_ENVS, callback=keeper)
    assert model.num_timesteps == 4 * N_STEPS * N_ENVS
    time = 0
    for rollout, (last_values, last_dones) in zip(keeper.rollouts, keeper.ends, strict=True):
        for step in range(N_STEPS):
            shown = rollout["observations"][step]
            np.testing.assert_array_equal(shown[:, 0], np.arange(N_ENVS))
            np.testing.assert_array_equal(shown[:, 1], time)
            np.testing.assert_array_equal(rollout["episode_starts"][step], shown[:, 2])
            executed = rollout["actions"][step]
            if actions is CONTINUOUS:
                executed = executed.clip(-1, 1)
            expected = executed.sum(axis=1) + time + 1000 * np.arange(N_ENVS)
            time += 1
            if time % (2 * LENGTH) != LENGTH:  # no bootstrap at a time-out
                np.testing.assert_allclose(rollout["rewards"][step], expected, rtol=1e-6)
        reference = _sb3s_advantages(model, rollout, last_values, last_dones)
        np.testing.assert_allclose(rollout["advantages"], reference, rtol=1e-4, atol=0.1)


def _sb3s_advantages(model: Any, rollout: dict[str, Any], values: Any, dones: Any) -> Any:
    buffer = RolloutBuffer(
        N_STEPS, model.observation_space, model.action_space, "cpu", model.gae_lambda, model.gamma, N_ENVS
    )
    for name in ("rewards", "episode_starts", "values"):
        getattr(buffer, name)[:] = rollout[name]
    buffer.compute_returns_and_advantage(torch.as_tensor(values), dones)
    return buffer.advantages


def test_the_hosts_memory_is_the_hosts_whatever_torchs_default_device_is() -> None:
    model = build(FastPPO, Clocks(), batch_size=40, n_epochs=1)
    with torch.device("meta"):
        model.learn(2 * N_STEPS * N_ENVS)
    assert np.isfinite(model.rollout_buffer.returns).all()


def test_what_the_policy_said_is_what_it_says() -> None:
    model = model_of()
    model.train = lambda: None
    keeper = Keeper()
    model.learn(N_STEPS * N_ENVS, callback=keeper)
    rollout = {name: torch.as_tensor(part).flatten(0, 1) for name, part in keeper.rollouts[0].items()}
    with torch.no_grad():
        values, log_probs, _ = model.policy.evaluate_actions(rollout["observations"], rollout["actions"].flatten())
    torch.testing.assert_close(rollout["values"], values.flatten())
    torch.testing.assert_close(rollout["log_probs"], log_probs)


def test_a_time_out_is_paid_what_would_have_come() -> None:
    model = model_of()
    model.train = lambda: None
    keeper = Keeper()
    model.learn(N_STEPS * N_ENVS, callback=keeper)
    rollout = keeper.rollouts[0]
    step = LENGTH - 1
    terminal = keeper.seen[step]["new_obs"] + 0.5
    with torch.no_grad():
        values = model.policy.predict_values(torch.as_tensor(terminal)).flatten().numpy()
    paid = keeper.seen[step]["rewards"] + model.gamma * values
    np.testing.assert_allclose(rollout["rewards"][step], paid, rtol=1e-6)


def test_callbacks_see_what_sb3_would_show_them() -> None:
    model = model_of()
    keeper = Keeper()
    model.learn(N_STEPS * N_ENVS, callback=keeper)
    theirs = model_of(PPO)
    reference = Keeper()
    theirs.learn(N_STEPS * N_ENVS, callback=reference)
    assert len(keeper.seen) == len(reference.seen) == N_STEPS
    for ours, expected in zip(keeper.seen, reference.seen, strict=True):
        for name, part in expected.items():
            assert ours[name].shape == part.shape
            assert ours[name].dtype == part.dtype
        for name in ("obs_tensor", "new_obs", "dones"):
            np.testing.assert_array_equal(ours[name], expected[name])
    assert len(model.ep_info_buffer) == len(theirs.ep_info_buffer)
    missing = set(reference.locals) - set(keeper.locals)
    assert missing <= {"idx", "done", "terminal_obs", "terminal_value"}, "leftovers of SB3's inner loop"


def test_one_group_steps_while_the_other_is_served() -> None:
    env = Clocks()
    model = model_of(env=env)
    model.learn(N_STEPS * N_ENVS, callback=Keeper())
    middle = ["receive 0", "step_results 0", "send 0", "receive 1", "step_results 1", "send 1", "callback"]
    last = ["receive 0", "step_results 0", "receive 1", "step_results 1", "callback"]
    assert env.log == ["send 0", "send 1", *middle * (N_STEPS - 1), *last]


def test_after_a_callback_has_ended_it_the_next_rollout_begins_where_the_environments_are() -> None:
    model = model_of()
    model.learn(4 * N_STEPS * N_ENVS, callback=Keeper(stop_at=LENGTH - 1))
    # The step after the one that the callback saw was under way, and ended an episode.
    np.testing.assert_array_equal(model._last_obs[:, 1], LENGTH)
    keeper = Keeper()
    model.learn(N_STEPS * N_ENVS, callback=keeper, reset_num_timesteps=False)
    _assert_times(keeper, first=LENGTH)
    np.testing.assert_array_equal(keeper.rollouts[0]["episode_starts"], keeper.rollouts[0]["observations"][:, :, 2])


@pytest.mark.parametrize("where", ["callback", "environment"])
def test_after_an_interrupt_the_next_training_begins_with_new_episodes(where: str) -> None:
    env = Clocks()
    model = model_of(env=env)
    keeper = Keeper(stop_at=5, error=KeyboardInterrupt())
    if where == "environment":
        keeper, env.fails_at, env.failure = Keeper(), 4, KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        model.learn(4 * N_STEPS * N_ENVS, callback=keeper)
    env.fails_at, keeper = None, Keeper()
    model.learn(N_STEPS * N_ENVS, callback=keeper, reset_num_timesteps=False)
    _assert_times(keeper, first=0)


def _assert_times(keeper: Keeper, *, first: int) -> None:
    times = keeper.rollouts[0]["observations"][:, :, 1]
    np.testing.assert_array_equal(times, np.broadcast_to(first + np.arange(N_STEPS)[:, None], times.shape))


def test_each_step_of_each_rollout_has_noise_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU discrete actions are drawn with noise for a whole rollout; here FastActorCritic must do it too."""
    model = model_of(policy_kwargs={"share_features_extractor": False})
    actor_critic = model._policy_step.actor_critic
    actor_critic._discrete = True
    used: list[Any] = []
    forward = actor_critic.forward

    def logged(obs: Any, noise: Any) -> Any:
        answer = forward(obs, noise=noise)
        with torch.no_grad():
            latent = model.policy.get_distribution(obs).distribution.logits
        np.testing.assert_array_equal(answer[0], (latent + noise).argmax(1))
        used.extend(noise.tolist())
        return answer

    monkeypatch.setattr(actor_critic, "forward", logged)
    model.learn(2 * N_STEPS * N_ENVS)
    assert len({tuple(row) for row in used}) == 2 * N_STEPS * N_ENVS


def test_an_environment_that_breaks_is_named() -> None:
    env = CheckedVecEnv(Clocks(fails_at=9), "clocks")
    env.seed(100)
    model = model_of(env=env)
    with pytest.raises(EnvironmentFault, match=r"clocks.*at step 50 raised OSError: the clock has stopped"):
        model.learn(N_STEPS * N_ENVS)


def test_the_policy_acts_in_evaluation_mode_and_from_its_parameters_as_they_are() -> None:
    model = model_of(policy_kwargs={"net_arch": [8]})
    model.train = lambda: None
    recorder = capturing(model)
    modes: list[bool] = []
    model.policy.value_net.register_forward_pre_hook(lambda *_: modes.append(model.policy.training))
    model.policy.set_training_mode(True)
    model.learn(N_STEPS * N_ENVS)
    assert len(modes) > 2 * N_STEPS, "each group's actions at each step, and values beyond them"
    assert set(modes) == {False}
    captures = recorder.log.count("capture")
    model.policy.action_net.weight.data = model.policy.action_net.weight.data.clone()
    model.learn(N_STEPS * N_ENVS)
    assert recorder.log.count("capture") == captures + 2, "one for each group"


def test_overlapping_can_be_turned_off_and_needs_an_environment_that_can() -> None:
    env = Clocks()
    assert as_grouped(env) is env
    checked = CheckedVecEnv(env, "clocks")
    assert as_grouped(checked) is checked
    assert checked.groups == env.groups
    assert as_grouped(VecNormalize(env)) is None, "it would be left out"
    env.groups = env.groups[:1]
    assert as_grouped(CheckedVecEnv(env, "clocks")) is None
    model = model_of(overlap=False)
    model.learn(N_STEPS * N_ENVS)
    assert model._overlapped is None


def test_another_environment_is_taken_note_of() -> None:
    model = model_of()
    model.learn(N_STEPS * N_ENVS)
    env = Clocks()
    model.set_env(env)
    model.learn(N_STEPS * N_ENVS)
    assert model._overlapped.env is env
    assert env.log.count("send 0") == env.log.count("send 1") == N_STEPS


@pytest.mark.parametrize(("theirs", "ours"), [(PPO, FastPPO), (A2C, FastA2C)])
def test_files_do_not_hold_it(theirs: Any, ours: Any, tmp_path: Any) -> None:
    model = model_of(ours)
    model.learn(N_STEPS * N_ENVS)
    model.save(tmp_path / "model")
    assert "_overlapped" not in load_from_zip_file(tmp_path / "model")[0]
    for kind in (theirs, ours):
        kind.load(tmp_path / "model", env=Clocks(), device="cpu").learn(N_STEPS * N_ENVS)


def test_a_plain_vector_has_no_groups() -> None:
    import gymnasium

    assert as_grouped(DummyVecEnv([lambda: gymnasium.make("CartPole-v1")])) is None
