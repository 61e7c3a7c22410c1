"""The learner connector through which the bonus enters the rewards before GAE."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core import DEFAULT_MODULE_ID

from revd.rewards.saved_state import check_saved_parameters, load_saved_state
from revd.rllib.episodes import check_last_observations, rewards_of, to_columns, to_rollout, with_rewards

if TYPE_CHECKING:
    from ray.rllib.env.single_agent_episode import SingleAgentEpisode

    from revd.rewards import IntrinsicReward
    from revd.rllib.episodes import EpisodeColumns
    from revd.rllib.options import Array, Options


class IntrinsicRewardConnector(ConnectorV2):
    """Adds the weighted bonus to the rewards of every batch, and carries the reward from batch to batch.

    It is the first piece of the learner's pipeline: the episodes are still as the environments left them, without the
    time step that RLlib appends for the value of the last state, and only those that ended are done. All pieces after
    it, GAE among them, see the changed rewards.

    Args:
        options: What to pay.
        n_runners: Env runners, a local one included.
        envs_per_runner: Environments of each.
        n_learners: Learners among which a batch is divided.
        seed: Of the reward, unless its parameters name one.
        device: Where the reward lives.
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
        self.rollouts = 0
        self.steps = 0
        self._options = options
        self._layout = {"n_runners": n_runners, "envs_per_runner": envs_per_runner}
        self._n_envs = n_runners * envs_per_runner
        self._n_learners = n_learners
        self._seed = seed
        self._device = device
        self._running: dict[int, tuple[str, int]] = {}
        self._pending: dict[str, Any] | None = None

    def __call__(
        self, *, batch: dict[str, Any], episodes: list[Any], metrics: Any = None, **kwargs: Any
    ) -> dict[str, Any]:
        """RLlib calls this for every batch; `episodes` is changed in place."""
        columns = to_columns(episodes, **self._layout)
        if not any(columns):
            return batch
        reward = self._prepared_reward(columns)
        check_last_observations(columns)
        rollout = to_rollout(columns, successors=reward.uses_successors)
        self._check_length(reward, rollout.n_steps)
        bonus = reward.compute(rollout).cpu().numpy()
        losses = reward.update(rollout)
        valid = rollout.valid.numpy()
        weights = self._weights(valid)
        extrinsic = rewards_of(columns).astype(np.float64)
        episodes[:] = with_rewards(columns, self._total(extrinsic, weights * bonus))
        self._remember_running(columns)
        if metrics is not None:
            numbers = self._numbers((weights * bonus)[valid], extrinsic[valid])
            numbers |= {"weight": float(weights[-1, 0]), **reward.metrics(), **losses}
            metrics.log_dict(numbers, key=(DEFAULT_MODULE_ID, "exploration"), window=1)
        return batch

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Counts, running episodes and the reward's state, in numbers, words and arrays: nothing to unpickle."""
        if self.reward is None:
            return self._pending or {}
        return {
            "method": type(self.reward).__name__,
            "parameters": asdict(self.reward.config),
            "n_envs": self._n_envs,
            "rollouts": self.rollouts,
            "steps": self.steps,
            "running": [[column, *part] for column, part in self._running.items()],
            "reward": {name: tensor.cpu().numpy().copy() for name, tensor in self.reward.state_dict().items()},
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on where `get_state` stopped; before the first batch, the state is applied when it comes.

        Raises:
            ValueError: It is the state of another method, of other parameters or for other environments. Nothing has
                changed then.
        """
        if not state:
            # That of before the first batch.
            self.reward, self._pending = None, None
            self.rollouts, self.steps, self._running = 0, 0, {}
            return
        self._check_fits(state)
        if self.reward is None:
            self._pending = state
        else:
            self._restore(self.reward, state)

    def _prepared_reward(self, columns: EpisodeColumns) -> IntrinsicReward:
        """The reward, made for the spaces of the first episode that was seen, with what ended behind its back ended."""
        if self.reward is None:
            episode = next(episode for column in columns for episode in column)
            spaces = episode.observation_space, episode.action_space
            reward = self._options.make_reward(*spaces, n_envs=self._n_envs, seed=self._seed)
            if self._pending is not None:
                self._restore(reward, self._pending)
                self._pending = None
            self.reward = reward.to(self._device)
        if any(self._is_broken(index, column) for index, column in enumerate(columns)):
            self.reward.end_episodes()
            self._running.clear()
        return self.reward

    def _check_length(self, reward: IntrinsicReward, n_steps: int) -> None:
        try:
            reward.check_rollout_length(n_steps)
        except ValueError as error:
            raise ValueError(
                f"{error}. Here n_steps is what a batch holds of one environment: raise train_batch_size_per_learner, "
                f"or use fewer environments than {self._described_envs()}"
            ) from None

    def _check_fits(self, state: dict[str, Any]) -> None:
        method = self._options.method
        if state["method"] != method:
            raise ValueError(
                f"the checkpoint holds the state of {state['method']}, this algorithm's reward is {method}"
            )
        check_saved_parameters(method, self._options.config, state["parameters"])
        if state["n_envs"] != self._n_envs:
            raise ValueError(
                f"the checkpoint holds the state of a reward for {state['n_envs']} environments, this algorithm has "
                f"{self._described_envs()}"
            )

    def _described_envs(self) -> str:
        runners, each = self._layout["n_runners"], self._layout["envs_per_runner"]
        return f"{self._n_envs}: {runners} env runner(s) with {each} each (num_env_runners, num_envs_per_env_runner)"

    def _restore(self, reward: IntrinsicReward, state: dict[str, Any]) -> None:
        load_saved_state(reward, {name: torch.as_tensor(np.array(value)) for name, value in state["reward"].items()})
        self.rollouts, self.steps = int(state["rollouts"]), int(state["steps"])
        self._running = {int(column): (str(name), int(time)) for column, name, time in state["running"]}

    def _is_broken(self, index: int, column: list[SingleAgentEpisode]) -> bool:
        """Whether an environment goes on elsewhere than its running episode stopped.

        So it is after a checkpoint was loaded, an env runner was replaced, or another learner saw what lies between.
        """
        running = self._running.get(index)
        return bool(column) and running is not None and running != (column[0].id_, column[0].t_started)

    def _remember_running(self, columns: EpisodeColumns) -> None:
        for index, column in enumerate(columns):
            if column and column[-1].is_done:
                self._running.pop(index, None)
            elif column:
                self._running[index] = (column[-1].id_, column[-1].t)

    def _weights(self, valid: Array) -> Array:
        """The weight of each time step, (n_steps, 1); counts the batch."""
        self.rollouts += 1
        # The other learners see as many steps at the same time.
        steps = self.steps + self._n_learners * np.cumsum(valid.sum(axis=1))
        self.steps = int(steps[-1])
        return self._options.weights(self.rollouts, steps)

    def _total(self, extrinsic: Array, bonus: Array) -> Array:
        # A number too large for float32 becomes infinite here, and is named rather than warned about.
        with np.errstate(over="ignore", invalid="ignore"):
            total: Array = (self._options.extrinsic_weight * extrinsic + bonus).astype(np.float32)
        bad = np.argwhere(~np.isfinite(total))
        if len(bad):
            step, env = bad[0]
            raise ValueError(
                f"the reward at step {step} of environment {env} is {total[step, env]}: the task's own is "
                f"{extrinsic[step, env]:g}, the weighted bonus {bonus[step, env]:g}"
            )
        return total

    def _numbers(self, bonus: Array, extrinsic: Array) -> dict[str, float]:
        """What is reported of a batch, from the weighted bonus and the extrinsic reward of its steps, each (n,)."""
        paid, earned = np.abs(bonus).sum(), np.abs(self._options.extrinsic_weight * extrinsic).sum()
        return {
            "extrinsic_mean": float(extrinsic.mean()),
            "bonus_share": float(paid / (paid + earned)) if paid + earned > 0 else 0.0,
        }
