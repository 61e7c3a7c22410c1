"""From SB3's buffer to a `Rollout`: successors, actions, ends of episodes, rewards without bootstrap."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnvWrapper, VecFrameStack, VecNormalize

from revd.sb3 import IntrinsicRewardCallback
from revd.sb3.recorder import RolloutRecorder
from tests.support.environments import TICK, counting_envs, show
from tests.support.sb3 import ALGORITHMS, ScriptedReward, make_model, scripted_reward

BOX = spaces.Box(-np.inf, np.inf, (3,))
IMAGE = spaces.Box(0, 255, (36, 40, 1), np.uint8)
SPACES: dict[str, spaces.Space[Any]] = {
    "box": BOX,
    "float64": spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
    "uint16": spaces.Box(0, 1000, (2,), np.uint16),
    "uint64": spaces.Box(0, 1000, (2,), np.uint64),
    "image": IMAGE,
    "discrete": spaces.Discrete(11),
    "multi-discrete": spaces.MultiDiscrete([5, 7]),
    "multi-binary": spaces.MultiBinary(4),
    "dict": spaces.Dict({"position": BOX, "camera": IMAGE, "level": spaces.Discrete(5)}),
}


def policy_for(space: spaces.Space[Any]) -> str:
    return "MultiInputPolicy" if isinstance(space, spaces.Dict) else "MlpPolicy"


def shown_rollouts(env: Any, algo: str = "PPO", n_rollouts: int = 3, **arguments: Any) -> tuple[Any, ScriptedReward]:
    """The model after training, and a reward that has kept every `Rollout` it was shown."""
    model = make_model(algo, env, n_steps=6, policy=policy_for(env.observation_space), **arguments)
    reward = scripted_reward(model)
    model.learn(n_rollouts * 6 * env.num_envs, callback=IntrinsicRewardCallback(reward))
    assert len(reward.rollouts) == n_rollouts
    assert all(rollout.dones.any() and not rollout.dones.all() for rollout in reward.rollouts)
    return model, reward


def expected_numbers(lengths: tuple[int, ...], start: int, steps: int) -> tuple[list[int], list[bool]]:
    """By hand: which observation a counting environment shows at every step, and whether the step ends the episode."""
    numbers, dones, number = [], [], start
    while len(numbers) < steps:
        for length in lengths:
            numbers += range(number, number + length)
            dones += [False] * (length - 1) + [True]
            number += length + 1
    return numbers[:steps], dones[:steps]


def assert_shows(values: Any, space: spaces.Space[Any], numbers: np.ndarray) -> None:
    """`values`, (n_steps, n_envs, …), are what the space shows for the numbers, (n_steps, n_envs)."""
    for step, env in np.ndindex(*numbers.shape):
        expected = show(space, int(numbers[step, env]))
        if isinstance(space, spaces.Dict):
            for key, part in expected.items():
                np.testing.assert_array_equal(values[key][step, env].numpy(), _as_seen(part))
        else:
            np.testing.assert_array_equal(values[step, env].numpy(), _as_seen(expected))


def _as_seen(observation: Any) -> Any:
    """SB3 puts the channels of an image first."""
    return np.moveaxis(observation, -1, 0) if np.ndim(observation) == 3 else observation


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("truncate", [True, False], ids=["truncate", "terminate"])
def test_every_successor_is_the_true_one(space: spaces.Space[Any], truncate: bool) -> None:
    _, reward = shown_rollouts(counting_envs(2, observation_space=space, truncate=truncate))
    columns = [expected_numbers((4,), 0, 18), expected_numbers((3,), 100, 18)]
    numbers, dones = (np.array([column[part] for column in columns]).T for part in (0, 1))
    for index, rollout in enumerate(reward.rollouts):
        rows = slice(6 * index, 6 * index + 6)
        np.testing.assert_array_equal(rollout.dones.numpy(), dones[rows])
        assert_shows(rollout.observations, space, numbers[rows])
        assert_shows(rollout.next_observations, space, numbers[rows] + 1)
        rollout.check_against(reward.observation_space, reward.action_space, 2)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_gives_the_true_successor(algo: str) -> None:
    _, reward = shown_rollouts(counting_envs(2), algo)
    for rollout in reward.rollouts:
        torch.testing.assert_close(rollout.next_observations, rollout.observations + TICK, rtol=0, atol=0)


def test_terminal_observations_take_the_type_of_the_others() -> None:
    recorder = RolloutRecorder()
    last = np.array([0.1, 0.2, 0.3])
    assert last.dtype == np.float64
    for done in (True, False):
        recorder.step(np.zeros(1), np.array([done]), [{"terminal_observation": last}], np.zeros(1))
    successors: Any = recorder._successors(torch.zeros(2, 1, 3), np.ones((1, 3), np.float32))
    assert successors.dtype == torch.float32
    np.testing.assert_array_equal(successors[:, 0], [last.astype(np.float32), [1, 1, 1]])


def test_uint8_images_stay_uint8() -> None:
    _, reward = shown_rollouts(counting_envs(2, observation_space=IMAGE))
    assert reward.rollouts[0].observations.dtype == torch.uint8
    assert reward.rollouts[0].next_observations.dtype == torch.uint8
    assert reward.rollouts[0].observations.shape == (6, 2, 1, 36, 40)


def test_frame_stacks_of_images_end_with_the_terminal_frame() -> None:
    _, reward = shown_rollouts(VecFrameStack(counting_envs(2, observation_space=IMAGE), 3))
    for rollout in reward.rollouts:
        newest, successor = rollout.observations[:, :, -1, 0, 0].int(), rollout.next_observations[..., 0, 0].int()
        assert successor.shape[2] == 3
        torch.testing.assert_close(successor[:, :, -1], newest + 1)
        torch.testing.assert_close(successor[:, :, -2], newest)


@pytest.mark.parametrize("space", [BOX, spaces.Dict({"a": BOX, "b": BOX})], ids=["box", "dict"])
def test_normalized_successors_are_what_the_policy_would_have_seen(space: spaces.Space[Any]) -> None:
    """At an end, the terminal observation normalised as VecNormalize did then; elsewhere the next row."""
    env = VecNormalize(counting_envs(2, observation_space=space), clip_obs=1e6)
    terminals: list[tuple[int, int, Any]] = []
    step_wait = env.step_wait
    n_calls = 0

    def spied() -> Any:
        nonlocal n_calls
        observations, rewards, dones, infos = step_wait()
        for index in np.flatnonzero(dones):
            number = env.unnormalize_obs(infos[index]["terminal_observation"])
            terminals.append((n_calls, int(index), infos[index]["terminal_observation"]))
            first = number["a"] if isinstance(number, dict) else number
            assert first[0] / TICK == pytest.approx(round(float(first[0]) / TICK), abs=1e-3)
        n_calls += 1
        return observations, rewards, dones, infos

    env.step_wait = spied  # type: ignore[method-assign]
    _, reward = shown_rollouts(env)

    assert len(terminals) >= 6
    for step, index, terminal in terminals:
        rollout = reward.rollouts[step // 6]
        assert rollout.dones[step % 6, index]
        for key in space if isinstance(space, spaces.Dict) else [None]:
            pick = (lambda values, key=key: values) if key is None else (lambda values, key=key: values[key])
            np.testing.assert_allclose(pick(rollout.next_observations)[step % 6, index], pick(terminal), rtol=1e-6)
            following, successor = pick(rollout.observations)[1:], pick(rollout.next_observations)[:-1]
            running = ~rollout.dones[:-1]
            torch.testing.assert_close(successor[running], following[running], rtol=0, atol=0)
            assert (successor[~running] != following[~running]).all()


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(4),
        spaces.Box(-1, 1, (2,)),
        spaces.Box(-1, 1, (2, 3)),
        spaces.MultiDiscrete([3, 2]),
        spaces.MultiBinary(3),
    ],
    ids=str,
)
def test_actions_have_the_shape_of_their_space(space: spaces.Space[Any]) -> None:
    _, reward = shown_rollouts(counting_envs(2, action_space=space))
    rollout = reward.rollouts[-1]
    assert tuple(rollout.actions.shape) == (6, 2, *(space.shape or ()))
    assert rollout.actions.flatten().tolist() != [rollout.actions.flatten()[0]] * rollout.actions.numel()


def test_actions_are_those_that_the_environment_got() -> None:
    space = spaces.Box(-0.01, 0.01, (2,))
    model, reward = shown_rollouts(counting_envs(2, action_space=space))
    assert np.abs(model.rollout_buffer.actions).max() > 0.01, "the policy's own actions go beyond the bounds"
    assert reward.rollouts[-1].actions.abs().max() <= 0.01


class SharedTerminal(VecEnvWrapper):
    """Gives every terminal observation in one and the same array, as environments in C++ may do."""

    def reset(self) -> Any:
        self.shared = np.zeros((self.num_envs, 2), np.float32)
        return self.venv.reset()

    def step_wait(self) -> Any:
        observations, rewards, dones, infos = self.venv.step_wait()
        for index in np.flatnonzero(dones):
            self.shared[index] = infos[index]["terminal_observation"]
            infos[index]["terminal_observation"] = self.shared[index]
        return observations, rewards, dones, infos


def test_terminal_observations_are_copied() -> None:
    _, reward = shown_rollouts(SharedTerminal(counting_envs(2, lengths=((2,), (3,)))))
    for rollout in reward.rollouts:
        torch.testing.assert_close(rollout.next_observations, rollout.observations + TICK, rtol=0, atol=0)


def test_what_is_recorded_does_not_change_with_the_environments_arrays() -> None:
    recorder = RolloutRecorder()
    rewards, dones = np.array([1.0, 2.0], np.float32), np.array([False, True])
    recorder.step(rewards, dones, [{}, {"terminal_observation": np.zeros(1)}], rewards)
    rewards += 10
    dones[:] = False
    recorder.step(rewards, dones, [{}, {}], rewards)
    assert recorder.n_steps == 2
    assert recorder.rewards.dtype == np.float32
    assert recorder.rewards.tolist() == [[1, 2], [11, 12]]
    assert recorder.rollout(counted_model(2, n_envs=2)).dones.tolist() == [[False, True], [False, False]]
    recorder.start()
    assert recorder.n_steps == 0


def test_a_missing_terminal_observation_is_warned_about_once() -> None:
    recorder = RolloutRecorder()
    ended = np.array([True])
    with pytest.warns(UserWarning, match=r"no infos\[i\]\['terminal_observation'\]"):
        recorder.step(np.zeros(1), ended, [{}], np.zeros(1))
    recorder.step(np.zeros(1), ended, [{}], np.zeros(1))  # a second warning would be an error here
    recorder.step(np.zeros(1), ended, [{}], np.zeros(1))
    assert recorder.rollout(counted_model(3)).next_observations.flatten().tolist() == [1, 2, 3]


@pytest.mark.parametrize(("method", "looks_ahead"), [("revd", False), ("re3", False), ("ride", True)])
def test_successors_are_gathered_for_those_who_look(method: str, looks_ahead: bool) -> None:
    callback = IntrinsicRewardCallback(method, k=2)
    shown = []

    class Keeper(BaseCallback):
        """After the other: its recorder still has the rollout."""

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            shown.append(callback._recorder.rollout(self.model))

    model = make_model("PPO", counting_envs(2), n_steps=6)
    model.learn(24, callback=[callback, Keeper()])
    assert [rollout.next_observations is not None for rollout in shown] == [looks_ahead] * 2
    assert bool(callback._recorder._terminal) == looks_ahead


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("in_dict", [False, True])
def test_last_observations_that_are_not_finite_in_float32_are_named(bad: float, in_dict: bool) -> None:
    recorder, model = RolloutRecorder(), counted_model(2, n_envs=3)
    for _ in range(2):
        recorder.step(np.zeros(3), np.zeros(3, bool), [{}] * 3, np.zeros(3))
    model._last_obs[1] = bad
    if in_dict:
        model._last_obs = {"level": np.arange(3), "place": model._last_obs}
    name = r"the observation\['place'\]" if in_dict else "the observation"
    with pytest.raises(ValueError, match=f"^{name} after step 1 of environment 1 holds a NaN or infinite value"):
        recorder.rollout(model)


def counted_model(n_steps: int, n_envs: int = 1) -> Any:
    """As much of a model as a recorder reads; it has seen 0, 1, 2, …"""
    numbers = np.repeat(np.arange(n_steps + 1.0), n_envs).reshape(n_steps + 1, n_envs, 1)
    buffer = SimpleNamespace(
        buffer_size=n_steps, n_envs=n_envs, observations=numbers[:-1], actions=np.zeros((n_steps, n_envs, 1))
    )
    return SimpleNamespace(
        rollout_buffer=buffer,
        observation_space=spaces.Box(-9, 9, (1,)),
        action_space=spaces.Discrete(2),
        _last_obs=numbers[-1],
    )


@pytest.mark.parametrize("bounds", [(0, 1), (5, 10), (-10, 10)])
def test_squashed_actions_are_shown_as_the_environment_gets_them(bounds: tuple[int, int]) -> None:
    space = spaces.Box(*bounds, (2,))
    env = counting_envs(2, action_space=space)
    given = []
    step = env.step_async
    env.step_async = lambda actions: (given.append(actions.copy()), step(actions))[1]
    model, reward = shown_rollouts(env, use_sde=True, policy_kwargs={"squash_output": True}, n_rollouts=2)
    assert model.policy.squash_output
    seen = np.concatenate([np.asarray(rollout.actions) for rollout in reward.rollouts])
    np.testing.assert_allclose(seen, np.stack(given), rtol=1e-5, atol=1e-5)
