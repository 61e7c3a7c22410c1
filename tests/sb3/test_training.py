import pytest
from safetensors.torch import load_file

from revd.sb3 import IntrinsicRewardCallback
from revd.sb3.algorithms import make_algorithm
from revd.sb3.environments import make_vec_env
from revd.sb3.training import Training


def make_training(*, normalize="none", bonus="revd", **parameters):
    env = make_vec_env("CartPole-v1", n_envs=2, normalize=normalize)
    model = make_algorithm("ppo", env, seed=0, parameters={"n_steps": 32, "n_epochs": 1})
    return Training(model=model, intrinsic=IntrinsicRewardCallback(bonus, **parameters) if bonus else None)


def ignore(report):
    """Reports nobody reads."""


def test_progress_is_read_after_the_bonus_is_paid(tmp_path):
    training, seen, episodes = make_training(), [], []
    training.learn(128, logs=tmp_path, on_rollout=seen.append, on_episode=episodes.append)
    assert seen[0].bonus_share == 0.0, "REVD pays nothing in its first rollout"
    assert seen[1].bonus_share == training.intrinsic.latest["bonus_share"] > 0
    assert sum(episode.length for episode in episodes) <= 128


def test_logs_are_closed_even_when_the_training_breaks(tmp_path):
    def fail(progress):
        raise RuntimeError("broke")

    with pytest.raises(RuntimeError, match="broke"):
        make_training().learn(64, logs=tmp_path, on_rollout=fail, on_episode=ignore)
    names = {path.name.split(".")[0] for path in tmp_path.iterdir()}
    assert names == {"progress", "events"}


def test_the_bonus_is_checked_before_training():
    make_training(k=31).check()
    make_training(bonus=None).check()
    with pytest.raises(ValueError, match="k"):
        make_training(k=32).check()


def test_statistics_are_saved_only_where_there_are_any(tmp_path):
    assert make_training().normalization_state() == {}
    training = make_training(normalize="both")
    training.save_normalization(tmp_path / "statistics.safetensors")
    assert set(load_file(tmp_path / "statistics.safetensors")) == set(training.normalization_state())


def test_closing_closes_the_environments():
    training = make_training()
    closed = []
    training.model.get_env().close = lambda: closed.append(True)
    training.close()
    assert closed == [True]
