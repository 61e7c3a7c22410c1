"""Calls of the policy during a rollout, by SB3 and by callbacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from revd.sb3 import FastPPO
from tests.fast.support import FRAMES, VECTOR, array, build, capturing, noise


class Curious(BaseCallback):
    """Calls the policy with other observations at every hook, and keeps the locals it sees."""

    def __init__(self, *, also_before: bool) -> None:
        super().__init__()
        self.also_before = also_before
        self.kept: list[tuple[Any, Any]] = []

    def _ask(self) -> None:
        policy: Any = self.model.policy
        state = torch.get_rng_state()
        with torch.no_grad():
            policy(torch.zeros(3, 5))
            policy(torch.zeros(1, 5), deterministic=True)
        torch.set_rng_state(state)

    def _on_rollout_start(self) -> None:
        if self.also_before:
            self._ask()

    def _on_step(self) -> bool:
        self._ask()
        self.kept.append((self.locals["values"], self.locals["log_probs"]))
        return True

    def _on_rollout_end(self) -> None:
        self._ask()


@pytest.mark.parametrize("also_before", [False, True])
@pytest.mark.parametrize("replayed", [False, True])
def test_callbacks_that_ask_the_policy_leave_the_rollout_alone(also_before: bool, replayed: bool) -> None:
    rollouts, kept = [], []
    for kind in (PPO, FastPPO):
        model = build(kind, noise(), batch_size=48, n_epochs=1)
        if replayed and kind is FastPPO:
            capturing(model)
        callback = Curious(also_before=also_before)
        model.train = lambda: None  # type: ignore[method-assign]
        model.learn(48, callback=callback)
        buffer: Any = model.rollout_buffer
        rollouts.append(
            [array(part) for part in (buffer.observations, buffer.actions, buffer.values, buffer.log_probs)]
        )
        kept.append(torch.cat([torch.cat([values, log_probs[:, None]], dim=1) for values, log_probs in callback.kept]))
    for theirs, ours in zip(*rollouts, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    torch.testing.assert_close(*kept, rtol=0, atol=0)


def test_the_policys_forward_is_restored_after_the_rollout() -> None:
    model = build(FastPPO, noise(), batch_size=12)
    model.learn(48)
    assert "forward" not in vars(model.policy)
    with pytest.raises(ZeroDivisionError):
        model.learn(48, callback=lambda *_: bool(1 / 0))
    assert "forward" not in vars(model.policy)


@pytest.mark.parametrize("space", [VECTOR, FRAMES], ids=["mlp", "cnn"])
def test_the_forward_pass_is_captured_once_and_again_for_new_parameters(space: Any) -> None:
    model = build(FastPPO, noise(space), batch_size=48, n_epochs=1)
    recorder = capturing(model)
    model.train = lambda: None  # type: ignore[method-assign]
    model.learn(2 * 48)
    assert recorder.log.count("capture") == 1
    with torch.no_grad():
        for parameter in model.policy.parameters():
            parameter.data = parameter.clone()
    model.learn(48)
    assert recorder.log.count("capture") == 2


def test_a_replaced_policy_is_used() -> None:
    model = build(FastPPO, noise(), batch_size=48, n_epochs=1)
    model.policy = build(FastPPO, noise(), seed=8, batch_size=48).policy
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(48)
    assert all(not torch.equal(*pair) for pair in zip(before, model.policy.parameters(), strict=True))


@pytest.mark.parametrize("space", [VECTOR, FRAMES])
@pytest.mark.parametrize("name", ["forward", "evaluate_actions"])
@pytest.mark.parametrize("before_training", [True, False])
def test_methods_set_on_the_policy_itself_are_called_and_stay(space: Any, name: str, before_training: bool) -> None:
    calls = []
    for kind in (PPO, FastPPO):
        model = build(kind, noise(space), batch_size=48, n_epochs=1)
        if not before_training:
            model.learn(48)
        original, count = getattr(model.policy, name), []

        def counted(*arguments: Any, original: Any = original, count: list[int] = count, **keywords: Any) -> Any:
            count.append(1)
            return original(*arguments, **keywords)

        setattr(model.policy, name, counted)
        model.learn(48)
        assert vars(model.policy)[name] is counted
        calls.append(len(count))
    assert calls[0] == calls[1] > 0
