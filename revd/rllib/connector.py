"""The learner connectors that add the bonus: to the rewards before GAE, or to the advantages after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from torch import Tensor

from revd.rewards.saved_state import check_saved_parameters, load_saved_state
from revd.rllib.episodes import check_last_observations, read_rewards, to_columns, to_rollout
from revd.rllib.payment import PaidBatch, UnweighedBonus, add_to_advantages, add_to_rewards
from revd.weighting.balance_warnings import RolloutSize

if TYPE_CHECKING:
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    from revd.arrays import Array
    from revd.rewards import IntrinsicReward
    from revd.rllib.episodes import EpisodeColumns
    from revd.rllib.options import Options


class IntrinsicRewardConnector(ConnectorV2):
    """Computes the bonus of every batch, and keeps the reward between batches.

    A bonus with a fixed weight is added to the rewards. One with an automatic weight waits for the
    `IntrinsicAdvantageConnector`.

    It is the first connector of the learner's pipeline. There the episodes are as the environments left them: RLlib has
    not yet appended a time step for the value of the last state, and only finished episodes are done. All later
    connectors, GAE among them, use the rewards as this one leaves them.

    Args:
        options: The reward and its weights.
        n_runners: Env runners, including a local one.
        envs_per_runner: Environments of each.
        n_learners: Learners among which a batch is divided.
        seed: Seed of the reward, unless its parameters have one.
        device: Device of the reward.
    """

    def __init__(
        self,
        options: Options,
        *,
        n_runners: int = 1,
        envs_per_runner: int = 1,
        n_learners: int = 1,
        seed: int | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self.reward: IntrinsicReward | None = None
        self.weighting = options.make_weighting()
        self._options = options
        self._layout = {"n_runners": n_runners, "envs_per_runner": envs_per_runner}
        self._n_envs = n_runners * envs_per_runner
        self._n_learners = n_learners
        self._seed = seed
        self._device = device
        self._running: dict[int, tuple[str, int]] = {}
        self._pending: dict[str, Any] | None = None
        self._unweighed: UnweighedBonus | None = None

    @property
    def rollouts(self) -> int:
        """Batches so far."""
        return self.weighting.schedule.rollouts

    @property
    def steps(self) -> int:
        """Environment steps so far, of all learners."""
        return self.weighting.schedule.steps

    def __call__(
        self, *, batch: dict[str, Any], episodes: list[Any], metrics: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """RLlib calls this for every batch; `episodes` may be changed in place."""
        columns = to_columns(episodes, **self._layout)
        if not any(columns):
            return batch
        reward = self._prepared_reward(columns)
        check_last_observations(columns)
        rollout = to_rollout(columns, successors=reward.uses_successors)
        self._check_length(reward, rollout.n_steps)
        bonus = reward.compute(rollout)
        # The other learners count as many steps at the same time.
        new_steps = self._n_learners * rollout.valid.numpy().sum(axis=1)
        paid = PaidBatch(
            rollout=rollout,
            extrinsic=read_rewards(columns).astype(np.float64),
            bonus=bonus,
            weights=self.weighting.schedule.next_weights(new_steps),
            size=RolloutSize(steps_per_env=rollout.n_steps, steps=int(new_steps.sum())),
        )
        numbers = {"extrinsic_mean": float(paid.extrinsic[rollout.valid.numpy()].mean())}
        if self.weighting.automatic is None:
            numbers |= add_to_rewards(episodes, columns, paid, self.weighting)
        else:
            self._unweighed = UnweighedBonus.of(paid, columns, reward, self.weighting.automatic)
        losses = reward.update(rollout)
        self.weighting.check_rollout(reward, paid.size)
        self._remember_running(columns)
        _log(metrics, {**numbers, **reward.metrics(), **losses})
        return batch

    def take_unweighed(self) -> UnweighedBonus | None:
        """The bonus of the batch in the pipeline, once; None without an automatic weight, or without steps."""
        waiting, self._unweighed = self._unweighed, None
        return waiting

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Counts, running episodes and the reward's state, as numbers, strings and arrays: no pickles."""
        if self.reward is None:
            return self._pending or {}
        tensors, values = self.weighting.state()
        return {
            "method": type(self.reward).__name__,
            "parameters": asdict(self.reward.config),
            "n_envs": self._n_envs,
            "running": [[column, *part] for column, part in self._running.items()],
            "reward": _as_arrays(self.reward.state_dict()),
            "weighting": _as_arrays(tensors),
            **values,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state that `get_state` returned; before the first batch, it is applied with that batch.

        Raises:
            ValueError: The state is of another reward, of other parameters or for other environments. Nothing has
                changed then.
        """
        if not state:
            # The state before the first batch.
            self.reward, self._pending = None, None
            self.weighting, self._running = self._options.make_weighting(), {}
            return
        self._check_fits(state)
        if self.reward is None:
            self._pending = state
        else:
            self._restore(self.reward, state)

    def _prepared_reward(self, columns: EpisodeColumns) -> IntrinsicReward:
        """Make the reward with the first batch; end its running episodes if one was not continued."""
        if self.reward is None:
            episode = next(episode for column in columns for episode in column)
            spaces = episode.observation_space, episode.action_space
            reward = self._options.make_reward(*spaces, n_envs=self._n_envs, seed=self._seed)
            self.weighting.attach(reward)
            if self._pending is not None:
                self._restore(reward, self._pending)
                self._pending = None
            self.reward = reward.to(self._device)
            if self.weighting.automatic is not None:
                self.weighting.automatic.to(self._device)
        if any(self._is_broken(index, column) for index, column in enumerate(columns)):
            self.reward.end_episodes()
            self.weighting.end_episodes()
            self._running.clear()
        return self.reward

    def _check_length(self, reward: IntrinsicReward, n_steps: int) -> None:
        try:
            reward.check_rollout_length(n_steps)
        except ValueError as error:
            raise ValueError(
                f"{error}. Here n_steps counts the steps of one environment in a batch: raise "
                f"train_batch_size_per_learner, or use fewer environments than {self._described_envs()}"
            ) from None

    def _check_fits(self, state: dict[str, Any]) -> None:
        expected = self._options.reward_class
        if state["method"] != expected:
            raise ValueError(
                f"the checkpoint holds the state of {state['method']}, this algorithm's reward is {expected}"
            )
        check_saved_parameters(expected, self._options.config, state["parameters"])
        if state["n_envs"] != self._n_envs:
            raise ValueError(
                f"the checkpoint holds the state of a reward for {state['n_envs']} environments, this algorithm has "
                f"{self._described_envs()}"
            )

    def _described_envs(self) -> str:
        runners, each = self._layout["n_runners"], self._layout["envs_per_runner"]
        return f"{self._n_envs}: {runners} env runner(s) with {each} each (num_env_runners, num_envs_per_env_runner)"

    def _restore(self, reward: IntrinsicReward, state: dict[str, Any]) -> None:
        load_saved_state(reward, _as_tensors(state["reward"]))
        # Checkpoints of a fixed weight, and of earlier versions, have no "weighting": its critic learns anew.
        self.weighting.attach(reward, anew=not state.get("weighting"))
        self.weighting.restore(_as_tensors(state.get("weighting", {})), state)
        self._running = {int(column): (str(name), int(time)) for column, name, time in state["running"]}

    def _is_broken(self, index: int, column: list[SingleAgentEpisode]) -> bool:
        """Whether an environment does not continue where its running episode stopped.

        This happens after a checkpoint was loaded, after an env runner was replaced, or if another learner got the
        steps in between.
        """
        running = self._running.get(index)
        return bool(column) and running is not None and running != (column[0].id_, column[0].t_started)

    def _remember_running(self, columns: EpisodeColumns) -> None:
        for index, column in enumerate(columns):
            if column and column[-1].is_done:
                self._running.pop(index, None)
            elif column:
                self._running[index] = (column[-1].id_, column[-1].t)


class IntrinsicAdvantageConnector(ConnectorV2):
    """Adds a bonus with an automatic weight to the advantages; it comes after GAE.

    Args:
        bonus: The connector before GAE, which computes the bonus and holds all state.
    """

    def __init__(self, bonus: IntrinsicRewardConnector) -> None:
        super().__init__()
        self._bonus = bonus

    def __call__(
        self, *, rl_module: Any, batch: dict[str, Any], episodes: list[Any], metrics: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """RLlib calls this for every batch, whose advantages are changed in place."""
        waiting, weighting = self._bonus.take_unweighed(), self._bonus.weighting
        if waiting is None:
            return batch
        own = batch[DEFAULT_MODULE_ID]
        if Columns.ADVANTAGES not in own:
            raise ValueError(
                "the batch has no advantages: weight='auto' needs RLlib's GeneralAdvantageEstimation in the learner's "
                "pipeline; use a number as weight"
            )
        numbers = add_to_advantages(own, episodes, waiting, weighting)
        if weighting.extrinsic_weight == 0:
            # With its own values as targets, the value function learns nothing of the task.
            with torch.no_grad():
                own[Columns.VALUE_TARGETS] = rl_module[DEFAULT_MODULE_ID].unwrapped().compute_values(own)
        _log(metrics, numbers)
        return batch


def _as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    return {name: tensor.cpu().numpy().copy() for name, tensor in tensors.items()}


def _as_tensors(arrays: Mapping[str, Array]) -> dict[str, Tensor]:
    return {name: torch.as_tensor(np.array(array)) for name, array in arrays.items()}


def _log(metrics: Any, numbers: dict[str, float]) -> None:
    if metrics is not None:
        metrics.log_dict(numbers, key=(DEFAULT_MODULE_ID, "exploration"), window=1)
