"""The trials of a search as Optuna keeps them: one file, to which every event is appended.

Whoever opens it holds the lease of the search, so that whatever another process left half done can be put right.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial, TrialState

from revd.experiments.tuning.parameters import Space
from revd.experiments.tuning.records import TrialRecord

#: Trials that are completed before one may be pruned, and parts of its training that each may have for certain. A bonus
#: pays late: an agent that explores more earns less at first.
FIRST_TRIALS, FIRST_PARTS = 5, 3

_NAME = "revd"
_STEPS, _ERROR = "steps", "error"


class Proposal:
    """A trial that is not over: its number, its values, and how it does.

    Attributes:
        number: Its number, from 0.
        values: Its parameters by name.
    """

    def __init__(self, trial: Trial, space: Space) -> None:
        self.values: Mapping[str, Any] = {axis.name: axis.dimension.suggest(trial, axis.name) for axis in space}
        self.number = trial.number
        self.trial = trial
        reported = trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        self._reported = dict(reported)

    @property
    def score(self) -> float | None:
        """The newest score that was reported."""
        return self._reported[max(self._reported)] if self._reported else None

    def reports(self, scores: Mapping[int, float]) -> bool:
        """Report the scores that are new, in order; whether the trial should be pruned, and then none after that."""
        for part, score in scores.items():
            if part not in self._reported:
                self.trial.report(score, part)
                self._reported[part] = score
                if self.trial.should_prune():
                    return True
        return False


class Journal:
    """All trials of a search.

    Args:
        path: The file; made if it is not there.
        space: What is searched.
        seed: Seed of what is drawn at random. Each trial has a generator of its own, made of this seed and its number,
            so that it does not matter how many sessions there were before it.
        prune: Whether trials are compared with others on the way.
    """

    def __init__(self, path: Path, space: Space, *, seed: int, prune: bool) -> None:
        logging.getLogger("optuna").setLevel(logging.WARNING)
        self._space = space
        self._seed = seed
        pruner = optuna.pruners.MedianPruner(n_startup_trials=FIRST_TRIALS, n_warmup_steps=FIRST_PARTS)
        try:
            self._storage = _open(path)
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=_NAME,
                direction="maximize",
                load_if_exists=True,
                pruner=pruner if prune else optuna.pruners.NopPruner(),
            )
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{str(path)!r} is damaged, or no journal of Optuna: {error}") from error

    def __len__(self) -> int:
        """Trials that were begun."""
        return len(self._begun())

    def records(self) -> list[TrialRecord]:
        """All trials that were begun, in order."""
        return [_record(trial) for trial in self._begun()]

    def left_open(self) -> list[Proposal]:
        """The trials that an earlier process began and did not end."""
        study = self._storage.get_study_id_from_name(_NAME)
        numbers = [trial.number for trial in self._begun() if trial.state == TrialState.RUNNING]
        trials = [self._storage.get_trial_id_from_study_id_trial_number(study, number) for number in numbers]
        return [Proposal(Trial(self._study, trial), self._space) for trial in trials]

    def begin(self) -> Proposal:
        """A new trial, with the most promising values."""
        trials = self._study.get_trials(deepcopy=False)
        if not any(trial.state == TrialState.WAITING for trial in trials):
            # Written down whole before the trial begins: one that is cut off while it does finds the same values.
            self._study.enqueue_trial(self._drawn(trials) if trials else self._present())
        return Proposal(self._study.ask(), self._space)

    def complete(self, proposal: Proposal, score: float, *, steps: int) -> None:
        """End a trial that has come to its end."""
        proposal.trial.set_user_attr(_STEPS, steps)
        self._study.tell(proposal.trial, score, state=TrialState.COMPLETE)

    def prune(self, proposal: Proposal, *, steps: int) -> None:
        """End a trial that does worse than others did; its last report is its score."""
        proposal.trial.set_user_attr(_STEPS, steps)
        self._study.tell(proposal.trial, state=TrialState.PRUNED)

    def fail(self, proposal: Proposal, error: str, *, steps: int) -> None:
        """End a trial that has broken off; later ones know nothing of it."""
        proposal.trial.set_user_attr(_STEPS, steps)
        proposal.trial.set_user_attr(_ERROR, error)
        self._study.tell(proposal.trial, state=TrialState.FAIL)

    def _begun(self) -> list[FrozenTrial]:
        return [trial for trial in self._study.get_trials(deepcopy=False) if trial.state != TrialState.WAITING]

    def _present(self) -> dict[str, Any]:
        """The values without a search, where they lie in the space: the best trial is then never worse than them."""
        drawn = self._drawn([])
        axes = [axis for axis in self._space if axis.dimension.holds(axis.parameter.present)]
        return {**drawn, **{axis.name: axis.parameter.present for axis in axes}}

    def _drawn(self, trials: Sequence[FrozenTrial]) -> dict[str, Any]:
        """What comes after these trials, by a generator of its own; drawn in a copy that is thrown away."""
        seed = int(np.random.SeedSequence([self._seed, len(trials)]).generate_state(1)[0])
        # With the liar, trials that run at the same time keep apart.
        sampler = TPESampler(seed=seed, multivariate=True, constant_liar=True)
        copy = optuna.create_study(direction="maximize", sampler=sampler)
        copy.add_trials(trials)
        trial = copy.ask()
        return {axis.name: axis.dimension.rounded(axis.dimension.suggest(trial, axis.name)) for axis in self._space}


def _open(path: Path) -> JournalStorage:
    """The file, without what a process that was killed while writing leaves: the lock, and a line without its end."""
    Path(f"{path}.lock").unlink(missing_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
    return JournalStorage(JournalFileBackend(str(path), JournalFileOpenLock(str(path))))


def _record(trial: FrozenTrial) -> TrialRecord:
    states = {TrialState.COMPLETE: "finished", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
    return TrialRecord(
        number=trial.number,
        state=states.get(trial.state, "running"),  # type: ignore[arg-type]
        values=dict(trial.params),
        score=trial.value,
        steps=trial.user_attrs.get(_STEPS, 0),
        error=trial.user_attrs.get(_ERROR),
    )
