import pytest
from stable_baselines3 import PPO

from revd.training.progress import EpisodeCallback, ProgressCallback
from revd.training.vec_env import make_vec_env


class Bonus:
    """Stands for the intrinsic callback: no numbers at first."""

    def __init__(self):
        self.latest = {}


def make_model(**parameters):
    return PPO("MlpPolicy", make_vec_env("CartPole-v1", n_envs=2), n_steps=32, device="cpu", **parameters)


def test_progress_after_each_rollout():
    seen = []
    make_model().learn(128, callback=ProgressCallback(seen.append, total_steps=128))
    assert [progress.steps for progress in seen] == [64, 128]
    assert {progress.total_steps for progress in seen} == {128}
    assert all(progress.steps_per_second > 0 for progress in seen)
    assert seen[0].bonus_share is None


def test_the_return_is_the_mean_of_recent_episodes():
    model, seen, episodes = make_model(), [], []
    callbacks = [ProgressCallback(seen.append, total_steps=256), EpisodeCallback(episodes.append)]
    model.learn(256, callback=callbacks)
    finished = [episode.episode_return for episode in episodes]
    assert len(finished) == len(model.ep_info_buffer) > 3
    # SB3 adds an episode to its buffer before it calls back, so the last step's counts too.
    assert seen[-1].episode_return == pytest.approx(sum(finished) / len(finished))


def test_before_the_first_episode_there_is_no_return():
    seen = []
    model = PPO("MlpPolicy", make_vec_env("MountainCar-v0"), n_steps=8, batch_size=8, device="cpu")
    model.learn(8, callback=ProgressCallback(seen.append, total_steps=8))
    assert seen[0].episode_return is None


def test_numbers_of_the_bonus_are_those_of_the_same_rollout():
    bonus, seen = Bonus(), []

    def report(progress):
        seen.append(progress)
        bonus.latest = {"bonus_share": 0.25, "bonus_mean": 3.0}

    make_model().learn(128, callback=ProgressCallback(report, total_steps=128, intrinsic=bonus))
    assert (seen[0].bonus_share, seen[0].bonus_mean) == (None, None)
    assert (seen[1].bonus_share, seen[1].bonus_mean) == (0.25, 3.0)


def test_speed_counts_only_this_training():
    model, seen = make_model(), []
    model.learn(64)
    model.learn(64, callback=ProgressCallback(seen.append, total_steps=64), reset_num_timesteps=False)
    assert seen[0].steps == 128
    slow = ProgressCallback(seen.append, total_steps=64)
    slow.model, slow.num_timesteps = model, 192
    slow.on_training_start({}, {})
    slow._started -= 10
    slow.num_timesteps = model.num_timesteps + 640
    slow.on_rollout_end()
    assert seen[-1].steps_per_second == pytest.approx(64, rel=0.05)


def test_episodes_say_when_where_and_how_long():
    episodes = []
    make_model(seed=1).learn(512, callback=EpisodeCallback(episodes.append))
    assert {episode.env for episode in episodes} == {0, 1}
    for env in (0, 1):
        own = [episode for episode in episodes if episode.env == env]
        ends = [episode.steps for episode in own]
        # Both environments are stepped together: an episode of n steps is 2 n steps of training.
        assert ends == [2 * sum(episode.length for episode in own[: index + 1]) for index in range(len(own))]
        assert all(episode.episode_return == episode.length for episode in own)
