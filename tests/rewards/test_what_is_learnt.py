"""What predictors are trained on, worked out by hand from the outputs of both networks."""

from typing import Any

import pytest

from revd.rewards import NGU, RND, NovelD
from tests.support.networks import mean_squared_mistake
from tests.support.rollouts import BOX, DISCRETE, changed, make_rollout

#: One minibatch of all transitions, so that the loss is the one before the step of Adam.
AT_ONCE = {"embedding_size": 4, "update_fraction": 1.0, "batch_size": 1_000, "warmup": 1}


@pytest.mark.parametrize(
    ("kind", "target", "states", "others"),
    [
        (RND, "encoder", "successors", "observations"),
        (NovelD, "encoder", "successors", "observations"),
        (NGU, "target", "observations", "successors"),
    ],
)
def test_the_states_that_a_predictor_is_trained_on(kind: Any, target: str, states: str, others: str) -> None:
    reward = kind(BOX, DISCRETE, 2, **AT_ONCE)
    rollout = changed(make_rollout(0), lengths=[5, 8])
    reward.compute(rollout)
    expected, other = (
        mean_squared_mistake(reward.predictor, getattr(reward, target), rollout.steps(getattr(rollout, field)))
        for field in (states, others)
    )
    assert reward.update(rollout)["predictor_loss"] == pytest.approx(expected, rel=1e-3)
    assert other != pytest.approx(expected, rel=0.01)
