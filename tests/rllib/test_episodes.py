"""RLlib's episodes as columns of a rollout, and back."""

import numpy as np
import pytest

pytest.importorskip("ray.rllib", reason="Ray is not installed: pip install 'revd[ray]'")

from gymnasium import spaces
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from revd.rllib.episodes import (
    Origin,
    check_last_observations,
    current_observations,
    read_rewards,
    replace_rewards,
    to_columns,
    to_rollout,
)
from tests.support.rllib import BOX, DISCRETE, Environment


def environments() -> list[Environment]:
    return [Environment(runner, env, seed=2 * runner + env) for runner in (1, 2) for env in (0, 1)]


def columns_of(episodes: list[SingleAgentEpisode]) -> list[list[SingleAgentEpisode]]:
    return to_columns(episodes, n_runners=2, envs_per_runner=2)


def test_an_origin_is_read_back() -> None:
    episode = SingleAgentEpisode(id_=Origin(3, 1, 20).signed("a:b"))
    assert Origin.of(episode) == Origin(3, 1, 20)


def test_an_episode_without_an_origin_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"'abc' does not say .* call it after config\.callbacks\(on_episode_created"):
        to_columns([SingleAgentEpisode(id_="abc")], n_runners=1, envs_per_runner=1)


def test_several_agents_are_an_error() -> None:
    with pytest.raises(TypeError, match="single-agent episodes, got a MultiAgentEpisode"):
        to_columns([MultiAgentEpisode()], n_runners=1, envs_per_runner=1)


@pytest.mark.parametrize("origin", [Origin(3, 0, 0), Origin(1, 2, 0)], ids=["runner", "environment"])
def test_an_origin_outside_the_layout_is_named(origin: Origin) -> None:
    (episode,) = Environment(origin.runner, origin.env, seed=0).sample(2)
    message = (
        rf"environment {origin.env} of env runner {origin.runner}, the reward was made for "
        r"2 env runner\(s\) with 2 environment\(s\) each"
    )
    with pytest.raises(ValueError, match=message):
        columns_of([episode])


def test_a_rollout_holds_what_each_environment_did_in_order() -> None:
    envs = environments()
    batches = [[envs[0].sample(7, ends=(2, 5)), envs[1].sample(9), [], envs[3].sample(4, ends=(3,))]]
    episodes = [episode for parts in batches[0] for episode in parts]
    # Learners in other processes get them sorted by length.
    columns = columns_of(sorted(episodes, key=len, reverse=True))
    rollout, rewards = to_rollout(columns), read_rewards(columns)
    assert to_rollout(columns, successors=False).next_observations is None
    check_last_observations(columns)
    assert rollout.lengths is not None
    assert rollout.lengths.tolist() == [len(env.log) for env in envs] == [7, 9, 0, 4]
    assert rollout.valid.numpy().sum() == 20
    for column, env in enumerate(envs):
        for step, (observation, action, reward, following, done) in enumerate(env.log):
            np.testing.assert_array_equal(rollout.observations[step, column], observation)
            np.testing.assert_array_equal(rollout.next_observations[step, column], following)
            assert rollout.actions[step, column] == action
            assert rewards[step, column] == reward
            assert bool(rollout.dones[step, column]) == done


def test_parts_of_an_episode_within_one_batch_are_joined() -> None:
    env = Environment(0, 0, seed=0)
    first, second = env.sample(3), env.sample(4, ends=(1,))
    (column,) = to_columns([*second, *first], n_runners=1, envs_per_runner=1)
    assert to_rollout([column]).dones[:, 0].tolist() == [entry[-1] for entry in env.log]


def test_an_episode_that_is_never_continued_is_done() -> None:
    env = Environment(0, 0, seed=0)
    first, _, third = env.sample(3), env.sample(2), env.sample(2)
    columns = to_columns([*first, *third], n_runners=1, envs_per_runner=1)
    assert to_rollout(columns).dones[:, 0].tolist() == [False, False, True, False, False]


def test_slices_for_several_learners_keep_their_place() -> None:
    env = Environment(1, 1, seed=0)
    (episode,) = env.sample(6, ends=(5,))
    columns = columns_of([episode.slice(slice(4, None)), episode.slice(slice(0, 4))])
    assert [len(part) for part in columns[1]] == [4, 2]
    assert to_rollout(columns).dones[:, 1].tolist() == 5 * [False] + [True]


def test_parts_without_a_step_are_left_out() -> None:
    env = Environment(0, 0, seed=0)
    assert to_columns([env.episode], n_runners=1, envs_per_runner=1) == [[]]


def test_episodes_of_lists_become_arrays() -> None:
    space = spaces.Dict({"position": BOX, "sign": spaces.Discrete(2)})
    observations = [{"position": np.full(3, t, np.float32), "sign": np.int64(t % 2)} for t in range(4)]
    episode = SingleAgentEpisode(
        id_=Origin(0, 0, 0).signed("x"),
        observations=observations,
        actions=[np.int64(1)] * 3,
        rewards=[0.0] * 3,
        observation_space=space,
        action_space=DISCRETE,
        len_lookback_buffer=0,
    )
    rollout = to_rollout(to_columns([episode], n_runners=1, envs_per_runner=1))
    assert not episode.is_numpy
    assert isinstance(rollout.observations, dict)
    assert isinstance(rollout.next_observations, dict)
    assert rollout.observations["position"][:, 0, 0].tolist() == [0, 1, 2]
    assert rollout.next_observations["sign"][:, 0].tolist() == [1, 0, 1]


def test_no_part_is_rounded_to_the_type_of_another() -> None:
    env = Environment(0, 0, seed=0)
    whole, fractions = env.sample(2, ends=(1,)), env.sample(2)
    whole[0].rewards.data = np.array([1, 2])
    fractions[0].rewards.data = np.array([0.25, 0.97])
    columns = to_columns([*whole, *fractions], n_runners=1, envs_per_runner=1)
    assert read_rewards(columns)[:, 0].tolist() == [1, 2, 0.25, 0.97]


def lstm_parts(lookback: int) -> list[SingleAgentEpisode]:
    """An episode cut in two, with the states of an LSTM beside the actions."""
    episode = SingleAgentEpisode(id_=Origin(0, 0, 0).signed("x"), observation_space=BOX, action_space=DISCRETE)
    episode.add_env_reset(observation=np.zeros(3, np.float32))
    parts = []
    for length in (4, 2):
        for _ in range(length):
            t = episode.t + 1
            episode.add_env_step(
                observation=np.full(3, t, np.float32),
                action=np.int64(1),
                reward=float(t),
                extra_model_outputs={"state_out": {"h": np.full(2, t), "c": np.full(2, -t)}},
            )
        parts.append(episode)
        episode = episode.cut(len_lookback_buffer=lookback)
    return parts


@pytest.mark.parametrize("lookback", [1, 3])
def test_the_states_of_an_lstm_are_kept(lookback: int) -> None:
    columns = to_columns(lstm_parts(lookback), n_runners=1, envs_per_runner=1)
    _, changed = replace_rewards(columns, np.arange(6, dtype=np.float32)[:, None])
    changed.validate()
    states = changed.extra_model_outputs["state_out"]
    assert states.lookback == lookback
    assert states.get()["h"][:, 0].tolist() == [5, 6]
    assert states.data["c"][:, 0].tolist() == [-1, -2, -3, -4, -5, -6][-lookback - 2 :]
    assert changed.get_rewards().tolist() == [4, 5]
    assert changed.get_rewards(slice(-lookback, 0), neg_index_as_lookback=True).tolist() == [1, 2, 3, 4][-lookback:]
    assert (changed.t_started, changed.t) == (4, 6)


def test_changed_rewards_leave_the_episodes_themselves_alone() -> None:
    env = Environment(0, 0, seed=0)
    (first,) = env.sample(3)
    env.episode = first.cut(len_lookback_buffer=1)
    (episode,) = env.sample(2)
    episode.custom_data["mine"] = 7
    before = episode.get_rewards().tolist()
    (changed,) = replace_rewards([[episode]], np.array([[1.5], [2.5]], dtype=np.float32))
    assert changed.get_rewards().tolist() == [1.5, 2.5]
    assert changed.get_rewards(-1, neg_index_as_lookback=True) == np.float32(first.get_rewards(-1))
    assert changed.custom_data == {"mine": 7}
    assert (changed.id_, changed.t_started, changed.is_done) == (episode.id_, 3, False)
    assert episode.get_rewards().tolist() == before


def test_environments_continue_with_their_last_observation_or_a_reset() -> None:
    running, ended, paused, ended_later = environments()
    first = ended.episode.get_observations(0)
    columns = columns_of([*running.sample(3), *ended.sample(4, ends=(3,))])
    current = current_observations(columns)
    expected = [running.log[-1][3], first, running.log[-1][3], running.log[-1][3]]
    np.testing.assert_array_equal(current, expected)
    # An episode of an earlier batch has no first observation here, so its last one stays.
    ended_later.sample(2)
    columns = columns_of([*paused.sample(1), *ended_later.sample(2, ends=(1,))])
    expected = [paused.log[-1][3], paused.log[-1][3], paused.log[-1][3], ended_later.log[-1][3]]
    np.testing.assert_array_equal(current_observations(columns), expected)


def test_dicts_of_observations_continue_too() -> None:
    episode = SingleAgentEpisode(id_=Origin(0, 0, 0).signed("x"))
    for step in range(3):
        observation = {"a": np.array([step], np.uint16), "b": {"c": np.full((2, 2), -step, np.float32)}}
        if step == 0:
            episode.add_env_reset(observation=observation)
        else:
            episode.add_env_step(observation=observation, action=0, reward=0.0)
    current = current_observations(to_columns([episode], n_runners=1, envs_per_runner=1))
    assert current["a"].tolist() == [[2]]
    assert current["b"]["c"].tolist() == [[[-2, -2], [-2, -2]]]
