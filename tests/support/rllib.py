"""Hand-made episodes of RLlib, as an env runner would return them, and a small PPO."""

from typing import Any

import numpy as np
from gymnasium import spaces
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from revd import Rollout
from revd.rewards import REWARDS
from revd.rllib.connector import IntrinsicRewardConnector
from revd.rllib.episodes import Origin
from revd.rllib.options import Options
from tests.support.every_reward import EVERY

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
DISCRETE = spaces.Discrete(4)
WEIGHT, DECAY = 0.5, 0.1
#: Parameters of rewards and mixtures; a mixture's member has its own under its name.
PASSED_ON = {"k", "boundary", "warmup", "hash_bits", "weights", *REWARDS}
#: Rewards, and what is passed to `connector` for them.
METHODS: list[tuple[Any, dict[str, Any]]] = [
    ("revd", {"k": 2}),
    ("revd", {"k": 2, "boundary": "episode"}),
    ("re3", {"k": 2}),
    ("re3", {"k": 2, "boundary": "episode"}),
    ("ride", {"k": 2}),
    (["revd", "ride"], {"revd": {"k": 2}, "ride": {"k": 2}}),
    *(each for each in EVERY.values() if each[0] not in ("revd", "re3", "ride")),
]


def ppo(env: str, *, runners: int = 0, steps: int = 300, seed: int = 1) -> PPOConfig:
    return (
        PPOConfig()
        .environment(env)
        .env_runners(num_env_runners=runners, num_envs_per_env_runner=2)
        .training(train_batch_size_per_learner=steps, num_epochs=1, minibatch_size=100)
        .debugging(seed=seed, log_level="ERROR")
    )


def bonus_state(algorithm: Any) -> dict[str, Any]:
    """What a checkpoint holds of the bonus."""
    state: dict[str, Any] = algorithm.learner_group.get_state("learner/intrinsic_reward")["learner"]["intrinsic_reward"]
    return state


class Environment:
    """One environment of one env runner, whose episodes are random walks; the steps it has taken are in `log`.

    An entry of the log is (observation, action, reward, next observation, whether the episode ended).
    """

    def __init__(self, runner: int, env: int, *, seed: int) -> None:
        self.runner, self.env = runner, env
        self.rng = np.random.default_rng(seed)
        self.serial = -1
        self.log: list[tuple[Any, Any, float, Any, bool]] = []
        self.episode = self._reset()

    def sample(self, n_steps: int, *, ends: tuple[int, ...] = ()) -> list[SingleAgentEpisode]:
        """Take steps, and return the episodes as RLlib would: those that ended at `ends`, and the rest of the last."""
        episodes = []
        for step in range(n_steps):
            done = step in ends
            self._step(done=done, terminated=bool(step % 2))
            if done:
                episodes.append(self.episode.to_numpy())
                self.episode = self._reset()
        part = self.episode
        if len(part):
            self.episode = part.cut()
            episodes.append(part.to_numpy())
        return episodes

    def _reset(self) -> SingleAgentEpisode:
        self.serial += 1
        episode = SingleAgentEpisode(observation_space=BOX, action_space=DISCRETE)
        episode.id_ = Origin(self.runner, self.env, self.serial).signed(episode.id_)
        episode.add_env_reset(observation=self._observe(np.zeros(3)))
        return episode

    def _step(self, *, done: bool, terminated: bool) -> None:
        before = self.episode.get_observations(-1)
        after, action, reward = self._observe(before), np.int64(self.rng.integers(4)), float(self.rng.normal())
        ending = {"terminated": done and terminated, "truncated": done and not terminated}
        self.episode.add_env_step(observation=after, action=action, reward=reward, **ending)
        self.log.append((before, action, reward, after, done))

    def _observe(self, before: Any) -> Any:
        return (before + self.rng.normal(size=3)).astype(np.float32)


def connector(
    reward: Any = "revd", *, seed: int | None = 3, n_runners: int = 2, n_learners: int = 1, **options: Any
) -> Any:
    layout = {"n_runners": n_runners, "envs_per_runner": 1, "n_learners": n_learners}
    params = {name: options.pop(name) for name in list(options) if name in PASSED_ON}
    chosen = Options(reward=reward, **{"weight": WEIGHT, "decay": DECAY, **options}, reward_params=params)
    return IntrinsicRewardConnector(chosen, seed=seed, **layout)


def environments() -> list[Environment]:
    return [Environment(runner, 0, seed=runner) for runner in (1, 2)]


def sampled(envs: list[Environment], batch: int) -> list[SingleAgentEpisode]:
    """A batch with episodes that end, that continue those of the batch before, and that continue into the next."""
    long, short = envs[0].sample(9, ends=(2 + batch, 6)), envs[1].sample(6, ends=(4,) if batch else ())
    return [*short, *long]


def paid(envs: list[Environment], episodes: list[SingleAgentEpisode], env: int) -> list[float]:
    """The rewards of one environment in order of time."""
    own = [episode for episode in episodes if episode.id_.split(":")[1] == str(envs[env].runner)]
    own.sort(key=lambda episode: (int(episode.id_.split(":")[3]), episode.t_started))
    return [float(value) for episode in own for value in episode.get_rewards()]


def logged(envs: list[Environment], start: list[int]) -> Rollout:
    """What the environments did since, by a loop over their own logs."""
    parts = [env.log[begin:] for env, begin in zip(envs, start, strict=True)]
    shape = max(map(len, parts)), len(parts)
    observations, following = np.zeros((*shape, 3), np.float32), np.zeros((*shape, 3), np.float32)
    actions, dones = np.zeros(shape, np.int64), np.zeros(shape, bool)
    for env, part in enumerate(parts):
        for t, (before, action, _, after, done) in enumerate(part):
            observations[t, env], actions[t, env], following[t, env], dones[t, env] = before, action, after, done
    return Rollout(
        observations=observations,
        actions=actions,
        next_observations=following,
        dones=dones,
        lengths=np.array([len(part) for part in parts]),
    )
