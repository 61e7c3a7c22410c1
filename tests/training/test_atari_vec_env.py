import ale_py
import cv2
import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.atari_wrappers import MaxAndSkipEnv, WarpFrame
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage

from revd.envs.atari import rom_name
from revd.training.atari_vec_env import AtariVecEnv

gymnasium.register_envs(ale_py)

PLAIN = {"frameskip": 1, "repeat_action_probability": 0.0}


class Played:
    """Everything that a vector of games gave to a fixed sequence of actions."""

    def __init__(self, env, steps, seed=0):
        generator = np.random.default_rng(seed)
        env.seed(seed)
        self.observations = [env.reset()]
        self.actions, self.rewards, self.dones, self.infos = [], [], [], []
        for _ in range(steps):
            self.actions.append(generator.integers(env.action_space.n, size=env.num_envs))
            observation, reward, done, info = env.step(self.actions[-1])
            self.observations.append(observation)
            self.rewards.append(reward)
            self.dones.append(done)
            self.infos.append(info)
        self.copies = [observation.copy() for observation in self.observations]

    def column(self, key, index=0):
        return [info[index].get(key) for info in self.infos]


@pytest.fixture(scope="module")
def games():
    """Long enough for some whole games, each of three lives."""
    env = AtariVecEnv("space_invaders", 1)
    yield Played(env, 1_500)
    env.close()


def split(played):
    """Steps at which a life was lost and the game continued, and steps at which the game ended."""
    ended = [step for step, report in enumerate(played.column("episode")) if report is not None]
    lost = [step for step, done in enumerate(played.dones) if done[0] and step not in ended]
    return lost, ended


def test_observations_look_like_those_of_sb3s_wrappers():
    reference = make_atari_env("ALE/SpaceInvaders-v5", n_envs=2, seed=0, env_kwargs=PLAIN)
    reference = VecTransposeImage(VecFrameStack(reference, 4))
    env = AtariVecEnv("space_invaders", 2)
    assert env.observation_space == reference.observation_space
    assert env.action_space == reference.action_space
    for vector in (env, reference):
        played = Played(vector, 20)
        first, last = played.observations[0], played.observations[-1]
        assert (first.shape, first.dtype) == ((2, 4, 84, 84), np.uint8)
        assert (first[:, :3] == 0).all(), "the stack of a new game is empty but for its first frame"
        assert first[:, 3].max() > 100
        assert (last[:, :, 10:].reshape(8, -1).max(axis=1) > 100).all()
        assert played.rewards[0].dtype == np.float32
        vector.close()


@pytest.mark.parametrize("game", ["Assault", "SpaceInvaders"])
def test_scores_and_frames_are_those_of_the_plain_game(game):
    plain = MaxAndSkipEnv(gymnasium.make(f"ALE/{game}-v5", obs_type="grayscale", **PLAIN))
    env = AtariVecEnv(rom_name(f"ALE/{game}-v5"), 1, no_ops=0, fire_reset=False)
    env.reset()
    plain.reset(seed=0)
    ends, scores = 0, []
    for action in np.random.default_rng(1).integers(env.action_space.n, size=1_000):
        frame, score, terminated, truncated, _ = plain.step(action)
        observations, _, _, (info,) = env.step(np.array([action]))
        assert info["task_reward"] == score
        assert ("episode" in info) == (terminated or truncated)
        scores.append(score)
        if terminated:
            plain.reset()
            ends += 1
        else:
            resized = cv2.resize(frame, (84, 84), interpolation=cv2.INTER_AREA)
            assert np.abs(observations[0, -1].astype(int) - resized).max() <= 1, "but for rounding"
    assert sum(scores) > 0
    assert ends > 0, "into another game"
    env.close()


def test_the_agent_is_paid_the_sign_of_the_score(games):
    scores = np.array(games.column("task_reward"))
    assert scores.max() > 1
    np.testing.assert_array_equal(np.concatenate(games.rewards), np.sign(scores))


def test_a_lost_life_ends_the_agents_episode_but_not_the_game(games):
    lost, ended = split(games)
    assert len(ended) >= 2
    assert len([step for step in lost if step < ended[0]]) == 2, "three lives"
    for step in lost:
        info = games.infos[step][0]
        np.testing.assert_array_equal(info["terminal_observation"], games.observations[step + 1][0])
        assert not info["TimeLimit.truncated"]
        if step + 2 < len(games.observations):
            np.testing.assert_array_equal(games.observations[step + 2][0, :3], games.observations[step + 1][0, 1:])


def test_scores_are_those_of_whole_games(games):
    _, ended = split(games)
    scores = games.column("task_reward")
    start = 0
    for step in ended:
        report = games.infos[step][0]["episode"]
        assert report["r"] == sum(scores[start : step + 1])
        assert report["l"] == step + 1 - start
        assert report["t"] >= 0
        start = step + 1


def test_the_terminal_observation_is_the_old_games_and_the_next_one_the_new_games(games):
    """A second native environment that shows the end of a game and its successor one after the other."""
    reference = ale_py.AtariVectorEnv(
        "space_invaders", 1, num_threads=1, reward_clipping=False, autoreset_mode=AutoresetMode.NEXT_STEP
    )
    _, ended = split(games)
    expected, _ = reference.reset(seed=0)
    for step, action in enumerate(games.actions):
        np.testing.assert_array_equal(games.observations[step], expected)
        expected, *_ = reference.step(action)
        if step in ended:
            np.testing.assert_array_equal(games.infos[step][0]["terminal_observation"], expected[0])
            expected, *_ = reference.step(action)  # only starts the new game
            assert not np.array_equal(games.infos[step][0]["terminal_observation"], expected[0])
    reference.close()


def test_observations_are_not_overwritten_later(games):
    # SB3 stores an observation only after the next one has been made.
    for observation, copy in zip(games.observations, games.copies, strict=True):
        np.testing.assert_array_equal(observation, copy)
    addresses = {observation.ctypes.data for observation in games.observations}
    assert len(addresses) == len(games.observations)


def test_the_frame_limit_is_a_time_out():
    env = AtariVecEnv("space_invaders", 2, max_frames=40)
    played = Played(env, 25)
    for index in range(2):
        reports = played.column("episode", index)
        ended = [step for step, report in enumerate(reports) if report is not None]
        assert ended == [9, 19]
        for step in ended:
            info = played.infos[step][index]
            assert info["TimeLimit.truncated"]
            assert info["episode"]["l"] == 10
            assert played.dones[step][index]
            assert info["terminal_observation"][:3].any(), "a full stack"
            assert not played.observations[step + 1][index, :3].any(), "a new one"
    env.close()


def test_equal_seeds_play_equal_games_and_others_do_not():
    env = AtariVecEnv("space_invaders", 2)
    first, other, again = (Played(env, 40, seed) for seed in (2**32 - 5, 1, 2**32 - 5))
    np.testing.assert_array_equal(first.observations, again.observations)
    assert not np.array_equal(first.observations, other.observations)
    env.close()


def test_sparse_rewards_leave_scores_alone():
    dense, *sparse = (Played(AtariVecEnv("assault", 1, sparse=p), 300) for p in (None, 0.5, 0.5, 1.0))
    paid, half, again, never = (np.array(played.rewards) for played in (dense, *sparse))
    for played in sparse:
        assert played.column("task_reward") == dense.column("task_reward")
        assert [bool(report) for report in played.column("episode")] == [bool(e) for e in dense.column("episode")]
    np.testing.assert_array_equal(half, again)
    assert not never.any()
    kept = half[paid != 0] != 0
    assert 0.2 < kept.mean() < 0.8
    np.testing.assert_array_equal(half[half != 0], paid[half != 0])
    with pytest.raises(ValueError, match="sparse"):
        AtariVecEnv("assault", 1, sparse=2)


def test_wrong_actions_are_refused_instead_of_waiting_for_ever():
    env = AtariVecEnv("space_invaders", 2)
    env.reset()
    for actions in ([0, 6], [-1, 0], [0, 0.5], [0], [[0], [0]]):
        with pytest.raises(ValueError, match=r"actions must be 2 elements of Discrete\(6\)"):
            env.step(np.array(actions))
    env.close()


def test_evaluation_sees_the_scores_of_whole_games(games):
    class Replaying:
        """Acts as in `games`."""

        def __init__(self):
            self.actions = iter(games.actions)

        def predict(self, observations, **_):
            return next(self.actions), None

    env = AtariVecEnv("space_invaders", 1)
    env.seed(0)
    returns, lengths = evaluate_policy(Replaying(), env, n_eval_episodes=2, return_episode_rewards=True)
    _, ended = split(games)
    reports = [games.infos[step][0]["episode"] for step in ended[:2]]
    assert (returns, lengths) == ([report["r"] for report in reports], [report["l"] for report in reports])
    env.close()


def test_what_sb3_asks_of_a_vector():
    env = AtariVecEnv("space_invaders", 2)
    assert env.env_is_wrapped(Monitor) == [True, True]
    assert env.env_is_wrapped(WarpFrame, indices=[0]) == [False]
    assert env.get_attr("render_mode") == [None, None]
    assert env.get_attr("grayscale", indices=1) == [True]
    assert not env.has_attr("action_masks")
    assert env.get_images() == [None, None]
    for call in (lambda: env.set_attr("x", 1), lambda: env.env_method("x")):
        with pytest.raises(NotImplementedError, match="'x' cannot be"):
            call()
    with pytest.raises(ValueError, match="render_mode must be None or 'rgb_array', got 'human'"):
        AtariVecEnv("space_invaders", 1, render_mode="human")
    env.close()


def test_pictures_show_the_games_in_colour():
    env = AtariVecEnv("space_invaders", 2, render_mode="rgb_array", max_frames=60)
    played = Played(env, 20)  # into a second game
    picture = env.render()
    assert (picture.shape, picture.dtype) == ((420, 160, 3), np.uint8)
    for image, observation in zip(env.get_images(), played.observations[-1], strict=True):
        assert not np.array_equal(image[..., 0], image[..., 1]), "in colour"
        grey = WarpFrame(_Showing(image)).observation(image)[..., 0]
        assert np.abs(grey.astype(int) - observation[-1]).mean() < 0.1, "of the same moment"
    env.close()


class _Showing(gymnasium.Env):
    """Has images like the given one, for WarpFrame."""

    def __init__(self, image):
        self.observation_space = gymnasium.spaces.Box(0, 255, image.shape, np.uint8)


def test_two_groups_play_the_same_games():
    alone, grouped = AtariVecEnv("space_invaders", 3), AtariVecEnv("space_invaders", 3, threads=2)
    assert len(alone.groups) == 1
    assert [part.stop - part.start for part in grouped.groups] == [1, 2]
    expected, found = Played(alone, 400), Played(grouped, 400)
    np.testing.assert_array_equal(found.observations, expected.observations)
    np.testing.assert_array_equal(found.rewards, expected.rewards)
    np.testing.assert_array_equal(found.dones, expected.dones)
    for ours, theirs in zip(found.infos, expected.infos, strict=True):
        for info, reference in zip(ours, theirs, strict=True):
            assert info.keys() == reference.keys()
            assert info["task_reward"] == reference["task_reward"]
            assert info.get("episode", {}).get("r") == reference.get("episode", {}).get("r")
    alone.close()
    grouped.close()


def test_games_that_were_interrupted_can_be_reset(monkeypatch):
    env = AtariVecEnv("space_invaders", 2, threads=2)
    env.reset()
    games = env._groups[1]
    receive = games.native.recv

    def interrupted():
        receive()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(games.native, "recv", interrupted)
        with pytest.raises(KeyboardInterrupt):
            env.step(np.zeros(2, int))
    env.reset()
    env.step(np.zeros(2, int))
    env.close()


def test_a_group_can_be_stepped_alone():
    env = AtariVecEnv("space_invaders", 4, threads=2)
    env.seed(0)
    env.reset()
    env.send(1, np.array([0, 1]))
    with pytest.raises(RuntimeError, match="twice"):
        env.send(1, np.array([0, 1]))
    with pytest.raises(ValueError, match="actions must be 2 elements"):
        env.send(0, np.array([0, 99]))
    env.send(0, np.array([0, 1]))
    observations = env.receive(1)
    rewards, dones, infos = env.step_results(1)
    with pytest.raises(RuntimeError, match="called once after"):
        env.step_results(1)
    assert (observations.shape, rewards.shape, dones.shape, len(infos)) == ((2, 4, 84, 84), (2,), (2,), 2)
    assert env.reset().shape == (4, 4, 84, 84), "a pending step is discarded"
    env.step(np.array([0, 1, 0, 1]))
    env.close()
