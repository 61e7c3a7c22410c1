import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from sb3_contrib import ARS, QRDQN
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.callbacks import BaseCallback, EveryNTimesteps
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnvWrapper, VecFrameStack, VecNormalize, sync_envs_normalization

from revd.coverage import Axis, Grid
from revd.coverage.defaults import default_grid
from revd.coverage.state import read_visits
from revd.sb3 import CoverageCallback, IntrinsicRewardCallback
from tests.support.environments import TICK, counting_envs
from tests.support.sb3 import ALL_ALGORITHMS, LatestOfEachRollout, flat_parameters, make_model, trained

N_ENVS = 2
LENGTHS = (4, 3)


def numbers(observations, infos):
    """The number that a counting environment shows."""
    return np.rint(observations[:, 0] / TICK).astype(int)


def naive_numbers(steps):
    """What each of `steps` steps of both environments leads to, an episode's last number included."""
    seen = []
    for env, length in enumerate(LENGTHS):
        number = 100 * env
        for step in range(1, steps + 1):
            number += 1
            seen.append(number)
            if step % length == 0:
                number += 1  # the start of the next episode, to which no step leads
    return sorted(seen)


def counted(callback):
    return callback.state().tables["keys"].tolist()


@pytest.mark.parametrize("algo", ALL_ALGORITHMS)
@pytest.mark.parametrize("truncate", [False, True])
def test_every_step_counts_the_state_that_it_leads_to(algo, truncate):
    callback = CoverageCallback(numbers)
    trained(callback, algo=algo, env=counting_envs(N_ENVS, truncate=truncate))
    assert counted(callback) == naive_numbers(18)
    assert callback.state().tables["counts"].tolist() == [1] * 36
    assert callback.coverage == 36


def test_observations_are_those_before_vec_normalize():
    callback = CoverageCallback(numbers)
    trained(callback, env=VecNormalize(counting_envs(N_ENVS)))
    assert counted(callback) == naive_numbers(18)


#: Each number has a cell of its own, at whose edge it lies: the slightest error counts the neighbour.
EDGES = Grid((Axis(name="n", size=TICK),))


def test_terminal_observations_are_exact_and_not_clipped():
    callback = CoverageCallback(EDGES)
    trained(callback, env=VecNormalize(counting_envs(N_ENVS), clip_obs=0.5), rollouts=6)
    assert counted(callback) == naive_numbers(36)


def test_observations_are_those_below_a_vec_normalize_inside_other_wrappers():
    callback = CoverageCallback(EDGES)
    trained(callback, env=VecFrameStack(VecNormalize(counting_envs(N_ENVS)), 3))
    assert counted(callback) == naive_numbers(18)


def test_the_environments_are_afterwards_as_before():
    callback = CoverageCallback(EDGES)
    envs = counting_envs(N_ENVS)
    normalization = VecNormalize(envs)

    class Break(BaseCallback):
        def _on_step(self):
            assert "step_wait" in vars(envs)
            # As EvalCallback does: the wrappers of both must be the same.
            sync_envs_normalization(normalization, VecNormalize(counting_envs(1)))
            if self.num_timesteps == 16:
                raise RuntimeError("broken")
            return True

    model = make_model("PPO", normalization, n_steps=6)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="broken"):
            model.learn(36, callback=[callback, Break()])
    model.learn(12, callback=[callback, CoverageCallback(EDGES)], reset_num_timesteps=False)
    assert "step_wait" not in vars(envs)
    model.learn(12, reset_num_timesteps=False)


def test_vec_normalize_may_normalize_rewards_alone():
    callback = CoverageCallback(numbers)
    trained(callback, env=VecNormalize(counting_envs(N_ENVS), norm_obs=False))
    assert counted(callback) == naive_numbers(18)


class SameMemory(VecEnvWrapper):
    """Writes all observations into one array, as some environments in C++ do."""

    def reset(self):
        self.memory = self.venv.reset()
        return self.memory

    def step_wait(self):
        observations, *rest = self.venv.step_wait()
        self.memory[...] = observations
        return self.memory, *rest


def test_environments_may_reuse_their_memory():
    callback = CoverageCallback(numbers)
    trained(callback, env=SameMemory(counting_envs(N_ENVS)))
    assert counted(callback) == naive_numbers(18)


def test_long_rollouts_are_turned_into_cells_before_they_end(monkeypatch):
    sizes = []

    def sized(observations, infos):
        sizes.append(len(observations))
        return numbers(observations, infos)

    monkeypatch.setattr("revd.sb3.coverage._WAITING_BYTES", 40)
    callback = CoverageCallback(sized)
    trained(callback, env=counting_envs(N_ENVS))
    assert max(sizes) == 6, "48 bytes: three steps of two environments"
    assert counted(callback) == naive_numbers(18)
    assert len(counted(callback)) == 36


def test_functions_see_dicts_and_infos():
    space = spaces.Dict({"a": spaces.Box(-np.inf, np.inf, (2,)), "b": spaces.Discrete(50)})
    seen = []

    def both(observations, infos):
        assert len(observations["b"]) == len(infos)
        assert {"TimeLimit.truncated"} <= infos[0].keys()
        seen.extend(observations["b"].tolist())
        return np.rint(observations["a"][:, 0] / TICK).astype(int)

    callback = CoverageCallback(both)
    trained(callback, env=counting_envs(N_ENVS, observation_space=space))
    assert counted(callback) == naive_numbers(18)
    assert sorted(seen) == sorted((number + 3) % 50 for number in naive_numbers(18))


@pytest.mark.parametrize("algorithm", [DQN, QRDQN, SAC])
def test_off_policy_algorithms(algorithm):
    action_space = spaces.Box(-1, 1, (1,)) if algorithm is SAC else None
    env = counting_envs(N_ENVS, action_space=action_space)
    model = algorithm("MlpPolicy", env, train_freq=3, learning_starts=10, device="cpu", policy_kwargs={"net_arch": [8]})
    model.set_logger(Logger(folder=None, output_formats=[]))
    callback = CoverageCallback(numbers)
    model.learn(36, callback=callback)
    assert counted(callback) == naive_numbers(18)


@pytest.mark.parametrize("many", [8, 10**6])
def test_short_rollouts_are_counted_together_and_saved_at_once(many, monkeypatch, tmp_path):
    monkeypatch.setattr("revd.sb3.coverage._MANY_VISITS", many)
    logged, saved = [], []

    class Witness(BaseCallback):
        def _on_step(self):
            return True

        def _on_rollout_end(self):
            logged.append(callback.latest["coverage"])

    class Save(Witness):
        def _on_step(self):
            callback.save(tmp_path / "visits")
            saved.append(len(read_visits(tmp_path / "visits").tables["keys"]))
            return True

    model = DQN("MlpPolicy", counting_envs(N_ENVS), train_freq=2, learning_starts=99, device="cpu")
    model.set_logger(Logger(folder=None, output_formats=[]))
    callback = CoverageCallback(numbers)
    model.learn(24, callback=[callback, Witness()])
    assert logged == ([0, 8, 8, 16, 16, 24] if many == 8 else [0] * 6)
    assert counted(callback) == naive_numbers(12)
    model.learn(4, callback=[callback, Save()], reset_num_timesteps=False)
    assert saved[0] == 26, "what waits is counted before it is saved"


@pytest.mark.parametrize("first", [0, 1])
def test_it_changes_nothing_beside_a_bonus_and_without_one(first):
    def train(*, counts, bonus):
        callbacks = [CoverageCallback(numbers)] * counts + [IntrinsicRewardCallback("revd", k=1)] * bonus
        return flat_parameters(trained(callbacks[::-1] if first else callbacks, env=counting_envs(N_ENVS)))

    for bonus in (False, True):
        assert train(counts=True, bonus=bonus).equal(train(counts=False, bonus=bonus))


def test_each_rollout_is_logged():
    grid = Grid((Axis(name="n", size=16 * TICK, low=0, high=10 * 16 * TICK),))
    callback = CoverageCallback(grid)
    log = LatestOfEachRollout(callback)
    trained([callback, log], env=counting_envs(N_ENVS), rollouts=4)
    # 1 … 29 and 101 … 131 by 16, without the starts of episodes; what lies beyond 160 belongs to the last cell.
    expected = [{n // 16 for n in naive_numbers(6 * (rollout + 1))} for rollout in range(4)]
    names = ("coverage", "coverage_share", "coverage_rollout")
    logged = [tuple(row[f"exploration/{name}"] for name in names) for row in log.logged]
    assert [row[0] for row in logged] == [len(cells) for cells in expected]
    assert [row[1] for row in logged] == [len(cells) / 10 for cells in expected]
    assert logged[0][2] == len(expected[0])
    assert log.latest[-1] == callback.latest


def test_a_second_learn_counts_on():
    callback = CoverageCallback(numbers)
    model = trained(callback, env=counting_envs(N_ENVS))
    before = callback.coverage
    model.learn(12, callback=callback, reset_num_timesteps=False)
    assert callback.coverage > before == 36
    assert callback.state().steps == 48


def test_steps_are_those_of_all_trainings(tmp_path):
    """SB3 restarts its count of the steps with each learn(), unless it is told not to."""
    pairs = Grid((Axis(name="n", size=TICK), Axis(name="m", size=TICK)))
    callback = CoverageCallback(pairs)
    model = trained(callback, env=counting_envs(N_ENVS))
    model.learn(36, callback=callback)
    model.learn(12, callback=callback, reset_num_timesteps=False)
    assert callback.state().steps == 84
    assert callback.visits.stages[-1].steps == 84
    assert callback.visits.stages[-1].visits.sum() == 84
    callback.save(tmp_path / "visits")
    loaded = CoverageCallback(pairs)
    loaded.load(tmp_path / "visits")
    trained(loaded, env=counting_envs(N_ENVS))
    assert loaded.visits.stages[-1].steps == 84 + 36
    assert loaded.visits.stages[-1].visits.sum() == 84 + 36


def test_counts_are_saved_and_loaded(tmp_path):
    callback = CoverageCallback(numbers)
    with pytest.raises(ValueError, match="nothing to save before training has started"):
        CoverageCallback().save(tmp_path / "visits")
    trained(callback, env=counting_envs(N_ENVS))
    callback.save(tmp_path / "visits")
    loaded = CoverageCallback(numbers)
    loaded.load(tmp_path / "visits")
    assert counted(loaded) == counted(callback)
    trained(loaded, env=counting_envs(N_ENVS))
    assert loaded.state().tables["counts"].tolist() == [2] * 36


def test_the_default_grid_is_that_of_the_task(tmp_path):
    callback = CoverageCallback()
    assert (callback.coverage, callback.visits, callback.description) == (0, None, None)
    trained(callback, env=make_vec_env("MountainCar-v0", n_envs=2, seed=0))
    assert callback.description == "position -1.2 … 0.6 by 0.05, velocity -0.07 … 0.07 by 0.005"
    (stage,) = callback.visits.stages
    assert stage.visits.sum() == 36
    callback.save(tmp_path / "visits")
    later = CoverageCallback()
    later.load(tmp_path / "visits")
    trained(later, env=make_vec_env("MountainCar-v0", n_envs=2, seed=0))
    assert later.visits.stages[-1].visits.sum() == 72


def test_tasks_without_a_default_need_cells():
    with pytest.raises(ValueError, match=re.escape("knows no cells of this task")):
        trained(CoverageCallback(), env=counting_envs(N_ENVS))
    flat = make_vec_env(lambda: gymnasium.wrappers.FrameStackObservation(gymnasium.make("CartPole-v1"), 2))
    with pytest.raises(ValueError, match=r"cells of 'CartPole-v1' with observations of shape \(2, 4\): pass cell="):
        make_model("PPO", flat).learn(8, callback=CoverageCallback())
    scaled = make_vec_env(lambda: gymnasium.wrappers.NormalizeObservation(gymnasium.make("MountainCar-v0")))
    with pytest.raises(ValueError, match="the unchanged observations of MountainCar-v0"):
        make_model("PPO", scaled).learn(8, callback=CoverageCallback())


def test_cells_may_be_named():
    callback = CoverageCallback("tests.sb3.test_coverage:numbers")
    trained(callback, env=counting_envs(N_ENVS))
    assert callback.coverage == 36


def test_other_cells_are_refused():
    with pytest.raises(TypeError, match="cell must be a Grid, a function, 'MODULE:NAME' or None, got 3"):
        CoverageCallback(3)


def test_a_callback_that_is_not_shown_the_steps_says_so():
    callback = CoverageCallback(numbers)
    model = make_model("PPO", counting_envs(N_ENVS))
    callback.init_callback(model)
    with pytest.raises(RuntimeError, match="pass CoverageCallback to learn"):
        callback.on_step()


def test_ars_shows_no_steps():
    model = ARS("LinearPolicy", counting_envs(N_ENVS), n_delta=1, device="cpu")
    model.set_logger(Logger(folder=None, output_formats=[]))
    with pytest.raises(RuntimeError, match="ARS shows no steps to any callback"):
        model.learn(16, callback=CoverageCallback(numbers))


def test_the_child_of_another_callback_counts_what_it_is_shown():
    callback = CoverageCallback(numbers)
    trained(EveryNTimesteps(4, callback), env=counting_envs(N_ENVS))
    callback.on_training_end()
    assert callback.coverage == 18


def test_it_is_said_once_that_there_is_no_room(monkeypatch):
    monkeypatch.setattr("revd.coverage.counter.CELL_LIMIT", 20)
    with pytest.warns(UserWarning, match="more than 20 distinct cells were visited") as caught:
        trained(CoverageCallback(numbers), env=counting_envs(N_ENVS))
    assert len(caught) == 1


def test_the_blocks_of_the_page_run(monkeypatch, tmp_path):
    page = Path(__file__).parents[2] / "docs" / "coverage.md"
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(compile(block.replace("50_000", "2_048"), str(page), "exec"), names)
    assert (tmp_path / "visits.safetensors").exists()
    cells = names["maze"].cells({"achieved_goal": np.array([[0.7, -0.1]])}, [{}])
    assert cells.tolist() == [[1, -1]]
    assert names["rooms"](np.array([[0.3]]), [{}]).tolist() == [1]


def test_the_page_lists_the_default_grids():
    text = (Path(__file__).parents[2] / "docs" / "coverage.md").read_text()
    for name in ("MountainCar-v0", "CartPole-v1", "Pendulum-v1", "Acrobot-v1"):
        with gymnasium.make(name) as env:
            grid = default_grid(name, env.observation_space)
        (row,) = re.findall(rf"^\| `[^|]*{name}.*$", text, re.MULTILINE)
        assert f": {grid.n_cells:,} |" in row
