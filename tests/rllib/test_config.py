"""What `with_intrinsic_reward` accepts, refuses and leaves alone, before any actor starts."""

import pickle
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray.rllib", reason="Ray is not installed: pip install 'revd[ray]'")

from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

import revd
from revd import REVD
from revd.rllib import IntrinsicRewardLearner, with_intrinsic_reward
from revd.rllib.callback import NoteOrigin, check_learner
from revd.rllib.options import Options
from tests.support.rllib import BOX, DISCRETE


class OtherCallback(RLlibCallback):
    pass


class OwnLearner(PPOTorchLearner):
    pass


class OwnConfig(PPOConfig):
    def get_default_learner_class(self) -> type[PPOTorchLearner]:
        return OwnLearner


class OwnIntrinsicLearner(IntrinsicRewardLearner):
    pass


def test_the_package_is_an_attribute() -> None:
    assert revd.rllib.with_intrinsic_reward is with_intrinsic_reward


def test_a_copy_is_returned_even_of_a_frozen_config() -> None:
    base = PPOConfig().environment("CartPole-v1")
    base.freeze()
    config = with_intrinsic_reward(base, "re3")
    assert config.learner_class is IntrinsicRewardLearner
    assert config.env == "CartPole-v1"
    assert base.learner_class is PPOTorchLearner
    assert base.learner_config_dict == {}
    assert base.callbacks_on_episode_created is None


def test_the_public_names_need_no_private_ones() -> None:
    assert revd.rllib.__all__ == ["IntrinsicRewardLearner", "with_intrinsic_reward"]


def test_callbacks_and_settings_of_the_user_stay() -> None:
    base = PPOConfig().callbacks(on_episode_created=print).learners(learner_config_dict={"mine": 1})
    config = with_intrinsic_reward(base).callbacks(OtherCallback).learners(learner_config_dict={"later": 2})
    assert config.callbacks_class is OtherCallback
    # Ours comes first, so that theirs sees the id that an episode keeps.
    assert isinstance(config.callbacks_on_episode_created[0], NoteOrigin)
    assert config.callbacks_on_episode_created[1] is print
    assert base.callbacks_on_episode_created is print
    assert set(config.learner_config_dict) == {"mine", "intrinsic_reward", "later"}


def test_a_config_can_be_written_as_rllib_writes_them() -> None:
    config = with_intrinsic_reward(PPOConfig())
    assert set(config.serialize()) == {*PPOConfig().serialize()}
    assert PPOConfig.from_dict(config.to_dict()).learner_class is IntrinsicRewardLearner


def test_a_custom_learner_may_derive_from_ours() -> None:
    config = with_intrinsic_reward(PPOConfig().learners(learner_class=OwnIntrinsicLearner))
    assert config.learner_class is OwnIntrinsicLearner


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        (APPOConfig(), TypeError, "config must be a PPOConfig of RLlib, got APPOConfig"),
        ("PPO", TypeError, "config must be a PPOConfig of RLlib, got str"),
        (
            PPOConfig().api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False),
            ValueError,
            "old API stack",
        ),
        (PPOConfig().multi_agent(policies={"a", "b"}), ValueError, "several policies .* need one agent"),
        (with_intrinsic_reward(PPOConfig()), ValueError, "has an intrinsic reward already"),
        (
            PPOConfig().learners(learner_class=OwnLearner),
            ValueError,
            r"OwnLearner: derive it from revd\.rllib\.IntrinsicRewardLearner",
        ),
        (OwnConfig(), ValueError, r"OwnLearner: derive it from revd\.rllib\.IntrinsicRewardLearner"),
        (
            PPOConfig().learners(num_aggregator_actors_per_learner=2),
            ValueError,
            "num_aggregator_actors_per_learner must be 0, .* got 2",
        ),
    ],
    ids=["appo", "word", "old stack", "agents", "twice", "learner", "default learner", "aggregators"],
)
def test_other_configs_are_refused(config: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        with_intrinsic_reward(config)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": "rvd"}, "unknown reward 'rvd'; did you mean 'revd'"),
        ({"kk": 3}, "unknown parameter of REVD 'kk'; did you mean 'k'"),
        ({"k": 0}, "k must be an integer of at least 1, got 0"),
        ({"weight": -1}, "weight must be 'auto' or a number of at least 0, got -1"),
        ({"weight": "automatic"}, "weight must be 'auto' or a number of at least 0, got 'automatic'"),
        ({"strength": -0.1}, "strength must be a number of at least 0, got -0.1"),
        ({"strength": 0.2, "weight": 0.1}, "strength = 0.2 belongs to weight='auto', but weight is 0.1"),
        ({"decay": 2}, r"decay must be inside \[0, 1\], got 2"),
        ({"decay_per": "batch"}, "decay_per must be 'rollout' or 'step', got 'batch'"),
        ({"extrinsic_weight": "no"}, "extrinsic_weight must be a number of at least 0, got 'no'"),
        ({"normalize": "std"}, "normalize must be 'none' or 'rms' or 'standard', got 'std'"),
        (
            {"reward": REVD(BOX, DISCRETE, 2), "normalize": "rms"},
            r"parameters \(normalize\) cannot change the REVD instance that was given: pass them to make_reward",
        ),
        ({"reward": REVD(BOX, DISCRETE, 2), "k": 3}, r"parameters \(k\) cannot change the REVD instance"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_arguments_are_checked_at_once(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        with_intrinsic_reward(PPOConfig(), **arguments)


def test_a_learner_that_replaced_ours_is_noticed() -> None:
    config = with_intrinsic_reward(PPOConfig()).learners(learner_class=OwnLearner)
    with pytest.raises(ValueError, match="the learner OwnLearner has replaced that of with_intrinsic_reward"):
        check_learner(algorithm=SimpleNamespace(config=config))
    # The env runner looks too: `on_algorithm_init` may have been set since.
    (note,) = config.callbacks_on_episode_created
    with pytest.raises(ValueError, match="the learner OwnLearner has replaced that of with_intrinsic_reward"):
        note(episode=SingleAgentEpisode(), env_runner=SimpleNamespace(config=config, worker_index=1), env_index=0)


def test_origins_are_noted_in_the_ids_of_episodes() -> None:
    config = with_intrinsic_reward(PPOConfig())
    (note,) = config.callbacks_on_episode_created
    runner = SimpleNamespace(config=config, worker_index=2)
    episodes = [SingleAgentEpisode(id_="abc") for _ in range(2)]
    for index, episode in enumerate(episodes):
        note(episode=episode, env_runner=runner, env_index=index)
    assert [episode.id_ for episode in episodes] == ["abc:2:0:0", "abc:2:1:1"]


def test_our_learner_needs_a_config_of_ours() -> None:
    with pytest.raises(ValueError, match=r"has no options for the reward: make the config with revd\.rllib"):
        IntrinsicRewardLearner(config=PPOConfig()).build()


def test_our_learner_needs_a_pipeline() -> None:
    config = with_intrinsic_reward(PPOConfig()).learners(num_aggregator_actors_per_learner=1)
    with pytest.raises(ValueError, match="num_aggregator_actors_per_learner must be 0"):
        IntrinsicRewardLearner(config=config).build()


def without_ray(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process in which Ray cannot be imported."""
    program = f"import sys; sys.modules['ray'] = None; {program}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_without_ray_one_line_says_what_to_install() -> None:
    result = without_ray("import revd; revd.rllib")
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: revd.rllib needs Ray's RLlib")
    assert last.endswith("pip install 'revd[ray]'")


def test_without_ray_everything_else_works() -> None:
    result = without_ray("import revd, revd.sb3, revd.runs.train; revd.make_reward")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("reward", ["revd+re3", ["revd", "re3"]])
def test_options_of_a_mixture_are_checked_and_survive_a_pickle(reward: Any) -> None:
    options = pickle.loads(pickle.dumps(Options(reward=reward, reward_params={"revd": {"k": 2}})))
    assert options.reward_class == "MixedReward"
    made = options.make_reward(BOX, DISCRETE, n_envs=2, seed=4)
    assert made.config.members["revd"] == {**options.config.members["revd"], "seed": 4}
    assert (made.config.members["revd"]["k"], made.config.members["re3"]["seed"]) == (2, 4)
    with pytest.raises(ValueError, match="member 're3' of the mixture: unknown parameter of RE3 'logs'"):
        Options(reward=reward, reward_params={"re3": {"logs": 1}})


def test_options_find_rewards_where_make_reward_does() -> None:
    assert Options(reward="revd.rewards.ride:RIDE").reward_class == "RIDE"
    with pytest.raises(ValueError, match="unknown reward 'rvd'; did you mean 'revd'"):
        Options(reward="rvd")


def repickled(options: Options, *, without: tuple[str, ...] = ()) -> Options:
    """The options from a pickle that lacks some fields, as those of earlier versions do."""
    for name in without:
        del options.__dict__[name]
    loaded: Options = pickle.loads(pickle.dumps(options))
    return loaded


@pytest.mark.parametrize("name", ["revd", "re3"])
def test_options_of_earlier_versions_mean_what_they_meant(name: str) -> None:
    old = repickled(Options(reward=name, weight=0.1, reward_params={"k": 4}), without=("strength",))
    weighting = old.make_weighting()
    assert not weighting.is_automatic
    assert weighting.schedule.weight == 0.1
    assert (old.config.k, old.config.merge_duplicates) == (4, False)


def test_options_of_earlier_versions_with_other_rewards_load() -> None:
    assert repickled(Options(reward="rnd", weight=0.1), without=("strength",)).reward_params == {}
    instance = REVD(BOX, DISCRETE, 2, k=4)
    vars(instance.config).pop("merge_duplicates")
    old = repickled(Options(reward=instance, weight=0.1), without=("strength",))
    assert (old.config.k, old.config.merge_duplicates) == (4, False)


def test_the_bonus_of_earlier_pickles_does_not_yield() -> None:
    old, new = repickled(Options(strength=0.2), without=("yield_to_task",)), repickled(Options(strength=0.2))
    assert (old.make_weighting().yield_to_task, new.make_weighting().yield_to_task) == (False, True)
    assert repickled(Options(weight=0.1), without=("yield_to_task",)).make_weighting().schedule.weight == 0.1


def test_options_of_today_stay_in_pickles() -> None:
    options = repickled(Options(strength=0.2))
    assert (options.weight, options.strength, options.reward_params) == ("auto", 0.2, {})
    assert options.config.merge_duplicates


@pytest.mark.parametrize(("params", "expected"), [({}, 1.0), ({"update_fraction": 0.5}, 0.5)])
def test_ride_of_earlier_pickles_trains_as_it_did(params: dict[str, Any], expected: float) -> None:
    old = Options(reward="ride")
    old.__setstate__({**vars(old), "reward_params": params})
    assert old.config.update_fraction == expected
    assert repickled(old).config.update_fraction == expected
    assert repickled(Options(reward="ride")).config.update_fraction == 0.25
