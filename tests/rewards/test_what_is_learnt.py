"""What predictors are trained on, worked out by hand from the outputs of both networks."""

import pytest

from revd import Rollout
from revd.rewards import NGU, RND, NovelD
from tests.support.networks import mean_squared_mistake
from tests.support.rollouts import BOX, DISCRETE, changed, make_rollout

#: One minibatch of all transitions, so that the loss is the one before the step of Adam.
AT_ONCE = {"embedding_size": 4, "update_fraction": 1.0, "batch_size": 1_000}


def seen_once(reward: RND | NovelD | NGU) -> Rollout:
    rollout = changed(make_rollout(0), lengths=[5, 8])
    reward.compute(rollout)
    return rollout


@pytest.mark.parametrize("kind", [RND, NovelD])
def test_rnds_predictor_is_trained_on_the_states_that_steps_lead_to(kind: type[RND] | type[NovelD]) -> None:
    reward = kind(BOX, DISCRETE, 2, warmup=1, **AT_ONCE)
    rollout = seen_once(reward)
    expected, other = (
        mean_squared_mistake(reward.predictor, reward.encoder, rollout.steps(states))
        for states in (rollout.successors, rollout.observations)
    )
    assert reward.update(rollout)["predictor_loss"] == pytest.approx(expected, rel=1e-3)
    assert other != pytest.approx(expected, rel=0.01)


def test_ngus_predictor_is_trained_on_the_states_themselves() -> None:
    reward = NGU(BOX, DISCRETE, 2, **AT_ONCE)
    rollout = seen_once(reward)
    expected, other = (
        mean_squared_mistake(reward.predictor, reward.target, rollout.steps(states))
        for states in (rollout.observations, rollout.successors)
    )
    assert reward.update(rollout)["predictor_loss"] == pytest.approx(expected, rel=1e-3)
    assert other != pytest.approx(expected, rel=0.01)
