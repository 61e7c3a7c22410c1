import math
from pathlib import Path

import pytest

from revd.runs.config import TrainConfig
from revd.runs.parameters import Parameters
from revd.tuning.config import TuneConfig
from revd.tuning.parameters import make_space, searchable_parameters, with_values
from revd.tuning.space import DEFAULT_VALUES, NumberRange, ValueList, parse_values

CART_POLE = TrainConfig(task="CartPole-v1", n_envs=2)


@pytest.mark.parametrize(
    ("text", "like", "expected"),
    [
        ("0.001:1:log", 0.1, NumberRange(0.001, 1.0, log=True)),
        ("1:10", 0.1, NumberRange(1.0, 10.0)),
        ("1:10", 3, NumberRange(1, 10)),
        ("1:10", None, NumberRange(1, 10)),
        ("0:0.5", None, NumberRange(0.0, 0.5)),
        ("1e-5:1e-3:log", 3e-4, NumberRange(1e-5, 1e-3, log=True)),
        ("3,5,10", 3, ValueList((3, 5, 10))),
        ("true,false", True, ValueList((True, False))),
        ("null,0.2", None, ValueList((None, 0.2))),
        ("rollout,episode", "rollout", ValueList(("rollout", "episode"))),
        ("1,true", 1, ValueList((1, True))),
    ],
)
def test_values_are_parsed_by_the_type_of_the_default(text, like, expected):
    found = parse_values(text, like=like)
    assert found == expected
    assert [type(value) for value in found.values_to_check] == [type(value) for value in expected.values_to_check]
    assert parse_values(str(found), like=like) == found


@pytest.mark.parametrize(
    ("text", "like", "message"),
    [
        ("5", 3, r"expected LOW:HIGH, LOW:HIGH:log or A,B,C, got '5'"),
        ("1:5:ln", 3, r"expected LOW:HIGH"),
        ("5:1", 3, r"from a number to a greater one, got 5:1"),
        ("0:1:log", 0.1, r"logarithmic range must lie above 0, got 0.0:1.0:log"),
        ("0:Infinity", 0.1, r"numbers, not beyond 1e\+15, got 'Infinity'"),
        ("a:b", 3, r"bounds of a range must be numbers, not beyond 1e\+15, got 'a'"),
        ("true:2", 3, r"bounds of a range must be numbers, .* got 'true'"),
        ("1:2.5", 3, r"expected integers, because the default 3 is one, got '1:2.5'"),
        ("0:1", True, r"expected A,B,C, because the default True is not a number"),
        ("a:b", "rollout", r"expected A,B,C"),
        ("episode", "rollout", r"^expected A,B,C, because the default 'rollout' is not a number, got 'episode'"),
        ("3,3", 3, r"at least two different values, got 3,3"),
        ("[1],[2]", None, r"must be a finite number, true, false, null or text, got \[1\]"),
        ("NaN,1", 0.1, r"must be a finite number, true, false, null or text, got nan"),
        (f"1:1{'0' * 400}", 3, r"numbers, not beyond 1e\+15, got '1000"),
    ],
)
def test_invalid_values_are_refused(text, like, message):
    with pytest.raises(ValueError, match=message):
        parse_values(text, like=like)


def test_which_values_are_contained():
    assert NumberRange(1, 5).contains(5)
    assert not any(NumberRange(1, 5).contains(value) for value in (6, 2.5, True, None))
    assert NumberRange(0.0, 1.0).contains(1)
    assert not NumberRange(0.0, 1.0).contains("0.5")
    assert ValueList((None, 1)).contains(None)
    assert not ValueList((None, 1)).contains(2)


def test_values_have_few_digits_and_stay_inside():
    assert NumberRange(0.0, 1.0).rounded(0.123456) == 0.1235
    assert NumberRange(0.12341, 1.0).rounded(0.12341) == 0.12341
    assert NumberRange(0.0, 0.99999).rounded(0.99999) == 0.99999
    assert NumberRange(1, 100_000).rounded(12_345) == 12_345
    assert ValueList((0.123456, 1)).rounded(0.123456) == 0.123456


@pytest.mark.parametrize("reward", ["revd", "re3", "ride"])
def test_every_parameter_of_reward_and_algorithm_can_be_searched(reward):
    known = searchable_parameters(TrainConfig(task="CartPole-v1", n_envs=2, reward=reward))
    assert {
        "weight",
        "strength",
        "decay",
        "extrinsic_weight",
        "embedding_size",
        "n_steps",
        "reward.embedding_size",
    } <= set(known)
    assert known["embedding_size"] is known["reward.embedding_size"]
    assert not {"seed", "reward.seed", "reward.normalize", "policy_kwargs", "algo.seed", "steps", "sparse"} & set(known)
    assert {known[name].field for name in ("weight", "reward.warmup", "algo.gamma")} == {
        "weight",
        "reward_params",
        "algo_params",
    }


@pytest.mark.parametrize("word", DEFAULT_VALUES)
def test_the_default_values_are_valid(word):
    (dimension,) = make_space(CART_POLE, [word])
    assert dimension.name == word


def test_values_are_set_in_their_fields():
    base = TrainConfig(task="CartPole-v1", n_envs=2, weight=0.1, reward_params=Parameters(alpha=0.3, k=2))
    space = make_space(base, ["weight=0.1:1", "reward.k=3,5", "algo.n_steps=32,64", "normalize=none,both"])
    assert [dimension.name for dimension in space] == ["weight", "k", "n_steps", "normalize"]
    assert [dimension.parameter.default for dimension in space] == [0.1, 2, 256, "none"]
    training = with_values(base, space, {"weight": 0.7, "k": 5, "n_steps": 32, "normalize": "both"})
    assert (training.weight, training.normalize) == (0.7, "both")
    assert training.reward_params == {"alpha": 0.3, "k": 5}
    assert training.algo_params == {"n_steps": 32}


def test_without_words_the_weight_is_searched():
    (dimension,) = make_space(CART_POLE)
    assert str(dimension) == "weight=0.001:10.0:log"
    assert dimension.parameter.default == "auto"
    assert type(dimension.parameter.set_in(CART_POLE, 1.0).weight) is float


def test_an_automatic_weight_is_a_choice_beside_numbers():
    (dimension,) = make_space(CART_POLE, ["weight=auto,0.1,1"])
    assert dimension.candidates == ValueList(("auto", 0.1, 1))
    assert with_values(CART_POLE, (dimension,), {"weight": "auto"}) == CART_POLE


def test_the_strength_of_an_automatic_weight_is_searched():
    (dimension,) = make_space(CART_POLE, ["strength"])
    assert (str(dimension), dimension.parameter.default) == ("strength=0.01:1.0:log", 0.1)
    training = with_values(CART_POLE, (dimension,), {"strength": 0.3})
    assert (training.weight, training.strength) == ("auto", 0.3)


def test_a_strength_is_not_searched_with_a_fixed_weight():
    with pytest.raises(ValueError, match=r"search 'strength=0.01:1.0:log': strength 0.01 belongs to weight auto"):
        make_space(TrainConfig(task="CartPole-v1", n_envs=2, weight=0.1), ["strength"])
    with pytest.raises(ValueError, match=r"search 'weight=0.001:10.0:log': strength 0.3 belongs to weight auto"):
        make_space(TrainConfig(task="CartPole-v1", n_envs=2, strength=0.3))


@pytest.mark.parametrize(
    ("reward", "words", "message"),
    [
        ("revd", ["wieght"], r"unknown parameter to search 'wieght'; did you mean 'weight'"),
        ("revd", ["k=3,5", "reward.k=1:9"], r"search names 'k' 2 times"),
        ("revd", ["warmup"], r"search needs values for 'warmup': warmup=LOW:HIGH"),
        ("revd", ["alpha=0.5:1.5"], r"search 'alpha=0.5:1.5': alpha must be .*1.5"),
        ("revd", ["weight=-1:1"], r"search 'weight=-1.0:1.0': weight must be a finite number of at least 0"),
        ("revd", ["boundary=rollout,game"], r"boundary must be 'rollout' or 'episode', got 'game'"),
        ("revd", ["network"], r"search needs values for 'network': network=A,B,C$"),
        ("revd", ["learning_rate=-1:1"], r"search 'learning_rate=-1.0:1.0': Invalid learning rate: -1"),
        ("revd", ["batch_size=0,64"], r"search 'batch_size=0,64': "),
        ("revd", ["k=3,300"], r"search 'k=3,300': "),
        ("revd", [f"n_steps=64:{10**15}"], r"search 'n_steps=64:1000000000000000': Unable to allocate"),
        ("revd", ["network=sb3,paper", "batch_norm=off,eval"], r"search network or batch_norm, not both"),
        ("revd", ["weight", "strength"], r"search weight or strength, not both: a strength belongs to weight auto"),
        ("revd", ["weight=aut,0.1"], r"weight must be a number or 'auto', got 'aut'"),
        ("none", ["strength"], r"unknown parameter to search 'strength'"),
        ("revd", ["batch_norm=off,eval"], r"batch_norm is 'eval', but network 'sb3' has none"),
        ("revd", ["n_envs=0,2"], r"search 'n_envs=0,2': n_envs must be"),
        ("revd", ["k=a:b"], r"search 'k=a:b': the bounds of a range must be numbers"),
        ("ride", ["learning_rate"], r"both the reward and the algorithm have 'learning_rate': search reward.learning"),
        ("none", [], r"reward 'none' has no weight to search; name other parameters, such as --search learning_rate"),
        ("none", ["weight"], r"unknown parameter to search 'weight'"),
    ],
)
def test_wrong_words_are_refused(reward, words, message):
    with pytest.raises(ValueError, match=message):
        make_space(TrainConfig(task="CartPole-v1", n_envs=2, reward=reward), words)


def test_counts_may_be_written_with_an_exponent():
    base = TrainConfig(task="CartPole-v1", n_envs=2)
    space = make_space(base, ["n_steps=6.4e1:1.28e2", "n_epochs=1e0,2e0", "gamma=0.5,1e0"])
    assert [str(dimension) for dimension in space] == [
        "n_steps=64:128", "n_epochs=1,2", "gamma=0.5,1.0"
    ]  # fmt: skip


def test_a_name_of_reward_and_algorithm_is_qualified():
    base = TrainConfig(task="CartPole-v1", n_envs=2, reward="ride")
    space = make_space(base, ["reward.learning_rate", "algo.learning_rate"])
    training = with_values(base, space, {"reward.learning_rate": 0.001, "algo.learning_rate": 0.002})
    assert training.reward_params == {"learning_rate": 0.001}
    assert training.algo_params == {"learning_rate": 0.002}
    assert math.isclose(space[1].parameter.default, 3e-4)


def test_a_search_without_a_reward_is_possible():
    base = TrainConfig(task="CartPole-v1", n_envs=2, reward="none")
    (dimension,) = make_space(base, ["learning_rate"])
    assert dimension.parameter.field == "algo_params"


def test_an_invalid_training_is_refused_at_once():
    with pytest.raises(ValueError, match="parameter of ppo 'n_stepz'"):
        make_space(TrainConfig(task="CartPole-v1", n_envs=2, algo_params=Parameters(n_stepz=5)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"jobs": -1}, "jobs must be at least 1, got -1"),
        ({"retries": -1}, "retries must be at least 0, got -1"),
        ({"metric": "finale"}, "unknown metric 'finale'; did you mean 'final'"),
    ],
)
def test_wrong_searches_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        TuneConfig(training=CART_POLE, space=(), **wrong)


@pytest.mark.parametrize(("words", "points"), [(["k=1:4", "boundary=rollout,episode"], 8), (["k=3,5"], 2)])
def test_a_space_must_have_room_for_all_trials(words, points):
    space = make_space(CART_POLE, words)
    TuneConfig(training=CART_POLE, space=space, trials=points)
    message = f"trials must be at most {points}, the number of points in the space, got {points + 1}"
    with pytest.raises(ValueError, match=message):
        TuneConfig(training=CART_POLE, space=space, trials=points + 1)
    TuneConfig(training=CART_POLE, space=make_space(CART_POLE, [*words, "weight"]), trials=1000)


def test_the_default_directory():
    config = TuneConfig(training=TrainConfig(task="classic/mountain-car"), space=())
    assert config.directory == Path("runs/classic-mountain-car/tune-ppo-revd")


def test_parameters_of_a_mixtures_members_can_be_searched():
    base = TrainConfig(task="CartPole-v1", n_envs=2, reward="revd+re3", reward_params=Parameters.parse(["revd.k=2"]))
    known = searchable_parameters(base)
    assert (known["revd.k"].default, known["re3.k"].default, known["weights.re3"].default) == (2, 3, 1.0)
    assert known["reward.revd.k"] is known["revd.k"]
    assert not {"k", "revd.seed", "re3.normalize", "seed"} & set(known)
    space = make_space(base, ["revd.k", "re3.log=true,false", "weights.re3=0.1:10:log"])
    assert str(space[0]) == f"revd.k={DEFAULT_VALUES['k']}"
    trial = with_values(base, space, {"revd.k": 5, "re3.log": False, "weights.re3": 0.5})
    assert trial.reward_params == {"revd": {"k": 5}, "re3": {"log": False}, "weights": {"re3": 0.5}}
    assert base.reward_params == {"revd": {"k": 2}}
    with pytest.raises(ValueError, match=r"needs values for 'weights\.revd'"):
        make_space(base, ["weights.revd"])
