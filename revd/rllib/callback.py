"""RLlib's callbacks at the creation of an algorithm and of an episode.

They are functions, not a class of callbacks, which `config.callbacks(...)` would replace. RLlib's checkpoints hold
pickles of them, so their names and their module must not change.
"""

from __future__ import annotations

from typing import Any

from revd.rllib.episodes import Origin
from revd.rllib.learner import IntrinsicRewardLearner


class NoteOrigin:
    """A callback for `on_episode_created` that writes the origin of every episode into its id."""

    def __init__(self) -> None:
        self.created = 0

    def __call__(self, *, episode: Any, env_runner: Any, env_index: int, **kwargs: Any) -> None:
        """RLlib calls this before the environment is reset."""
        if self.created == 0:
            # A second check, since a later `on_algorithm_init` of the user replaces `check_learner`.
            require_our_learner(env_runner.config)
        episode.id_ = Origin(env_runner.worker_index, env_index, self.created).signed(episode.id_)
        self.created += 1


def check_learner(*, algorithm: Any, **kwargs: Any) -> None:
    """A callback for `on_algorithm_init` that raises an error if the learner has been replaced."""
    require_our_learner(algorithm.config)


def require_our_learner(config: Any) -> None:
    """Raise a ValueError for a learner that is not ours, since it would never pay the bonus."""
    learner = config.learner_class
    if not issubclass(learner, IntrinsicRewardLearner):
        raise ValueError(
            f"the learner {learner.__name__} has replaced that of with_intrinsic_reward: "
            "derive it from revd.rllib.IntrinsicRewardLearner"
        )
