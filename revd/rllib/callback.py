"""What RLlib calls when an algorithm is built and when an env runner creates an episode.

Functions rather than a class of callbacks, which `config.callbacks(...)` would replace.
"""

from __future__ import annotations

from typing import Any

from revd.rllib.episodes import Origin
from revd.rllib.learner import IntrinsicRewardLearner


class NoteOrigin:
    """For `on_episode_created`: writes the origin of every episode into its id."""

    def __init__(self) -> None:
        self.created = 0

    def __call__(self, *, episode: Any, env_runner: Any, env_index: int, **kwargs: Any) -> None:
        """RLlib calls this before the environment is reset."""
        if self.created == 0:
            # Again, for `check_learner` is gone if the user has set an `on_algorithm_init` since.
            require_our_learner(env_runner.config)
        episode.id_ = Origin(env_runner.worker_index, env_index, self.created).signed(episode.id_)
        self.created += 1


def check_learner(*, algorithm: Any, **kwargs: Any) -> None:
    """For `on_algorithm_init`: an error at once if the learner has been replaced."""
    require_our_learner(algorithm.config)


def require_our_learner(config: Any) -> None:
    """Raise a ValueError for another learner than ours, which would never pay the bonus."""
    learner = config.learner_class
    if not issubclass(learner, IntrinsicRewardLearner):
        raise ValueError(
            f"the learner {learner.__name__} has replaced that of with_intrinsic_reward: "
            "derive it from revd.rllib.IntrinsicRewardLearner"
        )
