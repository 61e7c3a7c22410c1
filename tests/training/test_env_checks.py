"""Values that environments return are checked, and errors name the environment."""

import gymnasium
import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize

from revd.training.checked_vec_env import CheckedVecEnv, find_checked_vec_env
from revd.training.env_checks import CheckedEnv, EnvironmentFault
from revd.training.vec_env import make_vec_env
from tests.fast.test_overlapped_rollouts import Clocks
from tests.support.environments import counting_envs
from tests.support.faulty import BREAKS, FaultyEnv

#: The message for each fault, after the environment, its task, its seed and the step.
SAID = {
    "nan": r"gave an observation with 1 of 3 numbers not finite \(nan\)",
    "inf": r"gave an observation with 1 of 3 numbers not finite \(-inf\)",
    "shape": r"gave an observation of shape \(4,\), not \(3,\)",
    "stretched": r"gave an observation of shape \(1,\), not \(3,\)",
    "reward-nan": "gave the reward nan",
    "reward-shape": r"gave a reward of shape \(2,\), not a number",
    "reward-none": "gave the reward None, not a real number",
    "reward-text": "gave the reward 'x', not a real number",
    "reward-complex": "gave the reward .*1j.*, not a real number",
    "exits": r"raised in step\(\): SystemExit: 7",
    "raises": r"raised in step\(\): ZeroDivisionError: out of the blue",
    "last-nan": r"ended an episode with 1 of 3 numbers not finite \(nan\)",
    "reset-raises": r"raised in reset\(\): RuntimeError: cannot begin again",
}


def checked(how, *, broken=1, n_envs=3, vector=DummyVecEnv, **options):
    def factory(index):
        return lambda: CheckedEnv(FaultyEnv(how if index == broken else "fine", **options), index)

    env = CheckedVecEnv(vector([factory(index) for index in range(n_envs)]), "Some/Task-v0")
    env.seed(40)
    return env


def play(env, steps=30):
    env.reset()
    for _ in range(steps):
        env.step(np.zeros(env.num_envs, dtype=np.int64))


@pytest.mark.parametrize("how", BREAKS)
def test_the_error_names_environment_task_seed_and_step(how):
    step = 60 if how == "reset-raises" else 45  # of three environments, at the 20th or 15th of each
    expected = rf"^environment 1 of task 'Some/Task-v0' \(seed 41\) at step {step} {SAID[how]}"
    with pytest.raises(EnvironmentFault, match=expected):
        play(checked(how))


@pytest.mark.parametrize("how", ["nan", "shape", "last-nan", "raises"])
def test_observations_with_keys(how):
    with pytest.raises(EnvironmentFault, match=f"environment 2 .*seed 42.*{SAID[how]}") as error:
        play(checked(how, broken=2, keyed=True))
    assert ("under 'box'" in str(error.value)) == ("nan" in how)


def test_keys_that_are_missing():
    env = CheckedEnv(FaultyEnv(keyed=True), 0)
    env.unwrapped._observation = lambda values: {"box": values}
    with pytest.raises(EnvironmentFault, match="no dict with the keys box, kind"):
        CheckedVecEnv(DummyVecEnv([lambda: env]), "x").reset()


class Broken(Clocks):
    """Two groups of environments, 0 to 1 and 2 to 4; environment 3 returns NaN."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def receive(self, group):
        observations = super().receive(group)
        rewards, _, infos = self._results[group]
        if group == 1 and self._time[3] == 7:  # the end of an episode
            values = {"observation": observations[1], "reward": rewards[1:2]}
            values.get(self.part, infos[1]["terminal_observation"])[:1] = np.nan
        return observations


@pytest.mark.parametrize("by_group", [False, True])
@pytest.mark.parametrize("part", ["observation", "reward", "episode"])
def test_faults_in_the_second_group_are_those_of_its_environments(part, by_group):
    env = CheckedVecEnv(Broken(part), "Some/Task-v0")
    env.seed(40)
    env.reset()
    actions = np.zeros(5, np.int64)

    def step_groups():
        for group, envs in enumerate(env.groups):
            env.send(group, actions[envs])
            env.receive(group)
            env.step_results(group)

    step = step_groups if by_group else lambda: env.step(actions)
    for _ in range(6):
        step()
    said = {"observation": "gave an obs", "reward": "gave the reward nan", "episode": "ended an episode with 1 of 3"}
    expected = rf"^environment 3 of task 'Some/Task-v0' \(seed 43\) at step 35 {said[part]}"
    with pytest.raises(EnvironmentFault, match=expected):
        step()


def test_what_is_fine_passes_untouched():
    plain, wrapped = counting_envs(2), CheckedVecEnv(counting_envs(2), "x")
    np.testing.assert_array_equal(plain.reset(), wrapped.reset())
    for _ in range(20):
        for one, other in zip(plain.step(np.zeros(2, int)), wrapped.step(np.zeros(2, int)), strict=True):
            np.testing.assert_equal(one, other)
    assert wrapped.steps == 40


def test_a_worker_process_that_dies_is_named_and_the_rest_is_closed():
    env = checked("dies", vector=SubprocVecEnv, at=4)
    with pytest.raises(EnvironmentFault, match=r"environment 1 .*seed 41. at step 12 is gone: .*exit code 3"):
        play(env)
    env.close()
    for process in env.venv.processes:
        process.join(timeout=10)
        assert not process.is_alive()


def test_a_lost_connection_between_living_processes():
    env = CheckedVecEnv(counting_envs(2), "x")
    env.venv.reset = lambda: (_ for _ in ()).throw(EOFError())
    with pytest.raises(EnvironmentFault, match=r"one of the environments of task 'x' \(seed unknown\) .*a connection"):
        env.reset()


@pytest.mark.parametrize(
    ("observations", "rewards", "message"),
    [
        (np.zeros((2, 3)), np.zeros(2), r"gave observations of shape \(2, 3\), not \(2, 2\)"),
        (np.zeros((2, 2)), np.zeros((2, 1)), r"gave rewards of shape \(2, 1\), not \(2,\)"),
    ],
)
def test_vectors_of_other_libraries_are_checked_too(observations, rewards, message):
    env = CheckedVecEnv(counting_envs(2), "x")
    env.reset()
    env.venv.step_wait = lambda: (observations, rewards, np.zeros(2, bool), [{}, {}])
    with pytest.raises(EnvironmentFault, match=message):
        env.step(np.zeros(2, int))


def test_errors_of_the_vector_itself():
    env = CheckedVecEnv(counting_envs(2), "x")
    env.seed(40)
    env.reset()
    env.venv.step_wait = lambda: 1 / 0
    said = r"one of the environments of task 'x' \(seeds 40 … 41\) .* raised ZeroDivisionError: division"
    with pytest.raises(EnvironmentFault, match=said):
        env.step(np.zeros(2, int))


@pytest.mark.parametrize("reward", [np.float32(0.5), np.int64(2), np.array(1.0), True])
def test_other_kinds_of_numbers_are_rewards(reward):
    env = CheckedEnv(gymnasium.make("CartPole-v1"), 0)
    env.reset()
    real = env.env.step
    env.env.step = lambda action: (real(action)[0], reward, False, False, {})
    assert env.step(0)[1] == reward


def test_the_check_is_found_below_other_wrappers():
    env = make_vec_env("CartPole-v1", normalize="both")
    assert find_checked_vec_env(env) is env.venv
    assert find_checked_vec_env(VecNormalize(counting_envs(2))) is None
    assert find_checked_vec_env(None) is None


def test_interrupts_pass():
    env = CheckedVecEnv(DummyVecEnv([lambda: CheckedEnv(gymnasium.make("CartPole-v1"), 0)]), "x")
    env.reset()
    env.venv.envs[0].env.step = lambda action: (_ for _ in ()).throw(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        env.step(np.zeros(1, int))


def test_frames_of_games_are_not_searched_for_nan(monkeypatch):
    """uint8 cannot hold one: only the rewards are looked at."""
    looked = []
    real = np.isfinite
    monkeypatch.setattr(np, "isfinite", lambda array: looked.append(array.shape) or real(array))
    env = make_vec_env("atari/assault", n_envs=2)
    env.reset()
    env.step(np.zeros(2, int))
    env.close()
    assert looked == [(2,)]
