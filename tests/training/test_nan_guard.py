"""NaN and infinity end a training with a one-line error and are in no checkpoint."""

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3.common.buffers import RolloutBuffer

from revd import cli
from revd.runs.directory import RunDirectory
from revd.sb3 import IntrinsicRewardCallback
from revd.training.algorithms import make_algorithm
from revd.training.nan_guard import NotFiniteError, not_finite_cause, policy_problem, rollout_problem
from revd.training.session import Training
from revd.training.vec_env import make_vec_env
from tests.support.environments import counting_envs
from tests.support.sb3 import trained
from tests.training.test_session import learn

TASK = "RevdTestRich-v0"
ROLLOUT = 20
#: The reward of this module's task, from the given step of each environment on.
PLAN = {"reward": 1.0, "at": 0}


class RichEnv(gymnasium.Wrapper):
    """A cart-pole with the rewards of `PLAN`."""

    steps = 0

    def step(self, action):
        self.steps += 1
        observation, reward, *rest = self.env.step(action)
        return observation, PLAN["reward"] if self.steps > PLAN["at"] else reward, *rest


@pytest.fixture(autouse=True)
def task():
    gymnasium.register(TASK, entry_point=lambda **options: RichEnv(gymnasium.make("CartPole-v1")))
    yield
    del gymnasium.registry[TASK]
    PLAN.update(reward=1.0, at=0)


def make_training(*, algo="a2c", trainer="sb3", bonus=None, **parameters):
    env = make_vec_env(TASK, n_envs=2)
    batches = {"batch_size": ROLLOUT // 2} if algo == "ppo" else {}
    sizes = {"n_steps": ROLLOUT // 2, **batches}
    model = make_algorithm(algo, env, seed=0, trainer=trainer, parameters={**sizes, **parameters})
    return Training(model=model, intrinsic=IntrinsicRewardCallback(bonus) if bonus else None)


def diverge(training, tmp_path, said, **changes):
    """The snapshots that were taken of a training until it diverged."""
    saved = {}
    with pytest.raises(NotFiniteError, match=said):
        learn(training, 20 * ROLLOUT, tmp_path, on_checkpoint=saved.__setitem__, **changes)
    for tensors, _ in saved.values():
        assert all(tensor.isfinite().all() for tensor in tensors.values() if tensor.is_floating_point())
    return saved


@pytest.mark.parametrize("bonus", [None, "revd"])
@pytest.mark.parametrize("trainer", ["sb3", "fast"])
@pytest.mark.parametrize("algo", ["a2c", "ppo"])
def test_a_huge_reward_is_named_and_the_state_before_its_rollout_is_saved(algo, trainer, bonus, tmp_path):
    PLAN.update(reward=3e38, at=25)
    training = make_training(algo=algo, trainer=trainer, bonus=bonus)
    saved = diverge(training, tmp_path, r"^the training diverged at step 60: the task's reward of 3e\+38, at step 5 ")
    assert list(saved) == [2 * ROLLOUT]
    if bonus:
        assert saved[2 * ROLLOUT][1]["bonus"]["rollouts"] == 2, "the bonus has not seen the broken rollout"


@pytest.mark.parametrize("bonus", [None, "revd"])
@pytest.mark.parametrize("trainer", ["sb3", "fast"])
@pytest.mark.parametrize("algo", ["a2c", "ppo"])
def test_a_learning_rate_that_ruins_the_policy(algo, trainer, bonus, tmp_path):
    training = make_training(algo=algo, trainer=trainer, bonus=bonus, learning_rate=1e30)
    said = r"the policy's weights are (as large as [\d.]+e\+\d\d|nan|inf).*; a lower learning_rate"
    assert diverge(training, tmp_path, said, checkpoint_every=1) == {}


def test_what_the_last_update_ruins_is_noticed_before_the_end(tmp_path):
    training = make_training(learning_rate=1e30)
    with pytest.raises(NotFiniteError, match="weights"):
        learn(training, ROLLOUT, tmp_path)


def test_an_error_in_an_update_is_explained(tmp_path):
    """PPO's second batch meets the NaN that the first one made; weights that are only large give NaN too."""
    training = make_training()

    def update():
        raise ValueError("Expected parameter logits (Tensor of shape (10, 2)) of distribution …\ntensor([[nan")

    training.model.train = update
    diverge(training, tmp_path, r"diverged at step 20: the policy's probabilities are not finite; a lower [^\n]*$")


def test_other_errors_are_not_changed(tmp_path):
    training = make_training()
    training.model.train = lambda: (_ for _ in ()).throw(ValueError("something else"))
    with pytest.raises(ValueError, match=r"^something else$"):
        learn(training, ROLLOUT, tmp_path)
    assert not_finite_cause(ValueError("x"), training.model) is None


@pytest.mark.parametrize(("where", "said"), [("weight", "weights are nan"), ("optimiser", "optimiser's state")])
def test_snapshots_hold_only_finite_numbers(where, said, tmp_path):
    training = make_training(algo="ppo", n_epochs=1)
    learn(training, ROLLOUT, tmp_path)
    training.snapshot()
    if where == "weight":
        next(training.model.policy.parameters()).data[0] = torch.nan
    else:
        next(iter(training.model.policy.optimizer.state.values()))["exp_avg"][0] = torch.inf
    with pytest.raises(NotFiniteError, match=said):
        training.snapshot()


def test_statistics_inside_the_policy():
    model = make_training().model
    model.policy.register_buffer("mean", torch.tensor([0.0, torch.nan]))
    assert policy_problem(model) == "the statistics inside the policy are not finite"


def test_an_optimiser_may_hold_large_numbers(tmp_path):
    """Adam keeps squares, and TRPO does not clip gradients."""
    training = make_training(algo="ppo", n_epochs=1)
    learn(training, ROLLOUT, tmp_path)
    next(iter(training.model.policy.optimizer.state.values()))["exp_avg_sq"][0] = 1e30
    assert policy_problem(training.model) == ""


@pytest.mark.parametrize(
    ("rewards", "values", "said", "policy_lost"),
    [
        (1.0, np.nan, "the policy predicts values of nan", True),
        (1.0, 3e38, r"the policy predicts values of 3e\+38", True),
        (np.nan, 1.0, "the task's reward of nan, at step 0 ", False),
    ],
)
def test_the_cause_of_a_rollout_that_is_not_finite(rewards, values, said, policy_lost):
    env = counting_envs(2)
    buffer = RolloutBuffer(4, env.observation_space, env.action_space, n_envs=2)
    assert rollout_problem(buffer) is None
    buffer.rewards[:], buffer.values[:], buffer.advantages[:] = rewards, values, np.inf
    problem, found = rollout_problem(buffer)
    assert problem.startswith(said.replace("\\", ""))
    assert found == policy_lost


@pytest.mark.filterwarnings("ignore:overflow")
def test_the_error_names_the_task_in_a_users_script_too():
    env = counting_envs(2, lengths=[(40,)], reward=lambda number: 3e38)
    with pytest.raises(ValueError, match=r"the task's own reward is 3e\+38$"):
        trained(IntrinsicRewardCallback("revd"), env=env)


@pytest.mark.parametrize("reward", ["none", "revd"])
def test_the_command_reports_it_in_one_line_and_can_resume(reward, tmp_path, capsys):
    PLAN.update(reward=3e38, at=25)
    words = f"--task {TASK} --algo a2c --n-envs 2 --steps 80 --algo-params n_steps=10 --no-progress".split()
    command = ["train", *words, "--reward", reward, "--output", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as error:
        cli.main(command)
    assert error.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("revd: NotFiniteError: the training diverged at step 60: the task's reward of 3e+38")
    assert said.endswith("the last checkpoint, after 40 steps, is kept: the same command resumes from it\n")
    assert said.count("\n") == 1
    PLAN.update(reward=1.0)
    cli.main(command)
    assert RunDirectory(tmp_path / "run").read_status().state == "finished"
