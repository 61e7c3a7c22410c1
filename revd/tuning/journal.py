"""The trials of a search as Optuna keeps them: one file, to which every event is appended.

Whoever opens it holds the lease of the search, so that whatever another process left half done can be put right.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial, TrialState

from revd.tuning.directory import naming
from revd.tuning.parameters import Space
from revd.tuning.pruning import falls_behind
from revd.tuning.records import TrialRecord

#: So often the sampler may propose values that were tried already, before they are drawn without it.
PROPOSALS = 10

_NAME = "revd"
_STEPS = "steps"


class Proposal:
    """A trial that is not over.

    Attributes:
        number: Its number, from 0.
        values: Its parameters by name.
        part: The newest part that has a score; 0 if none has.
        score: That score.
        judged: The scores that it was judged by, by part.
    """

    def __init__(self, trial: Trial, space: Space) -> None:
        self.values: Mapping[str, Any] = {axis.name: axis.dimension.suggest(trial, axis.name) for axis in space}
        self.number = trial.number
        self.trial = trial
        reported = trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        self.part = max(reported, default=0)
        self.score: float | None = reported.get(self.part)
        # Whoever wrote the newest one down may have been killed before it could judge.
        self.judged = {part: score for part, score in reported.items() if part < self.part}


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
        self._prune = prune
        try:
            self._storage = _open(path)
            self._study = optuna.create_study(
                storage=self._storage, study_name=_NAME, direction="maximize", load_if_exists=True
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
        """The trials that an earlier process began and did not end, those that failed among them."""
        numbers = [trial.number for trial in self._begun() if trial.state == TrialState.RUNNING]
        return [Proposal(Trial(self._study, self._id(number)), self._space) for number in numbers]

    def begin(self) -> Proposal:
        """A new trial, with the most promising values."""
        trials = self._study.get_trials(deepcopy=False)
        if not any(trial.state == TrialState.WAITING for trial in trials):
            # Written down whole before the trial begins: one that is cut off while it does finds the same values.
            self._study.enqueue_trial(self._drawn(trials) if trials else self._present())
        return Proposal(self._study.ask(), self._space)

    def reports(self, proposal: Proposal, scores: Mapping[int, float]) -> bool:
        """Write down the scores that are new, in order; whether the trial should be pruned, and then none after that.

        A run that went back to its checkpoint lives through some parts again, with other scores: those are new too.
        """
        for part, score in scores.items():
            if proposal.judged.get(part) == score:
                continue
            self._overwrite(proposal, {part: score})
            proposal.judged[part] = score
            proposal.part, proposal.score = part, score
            # Never the first: it shows what the search was worth.
            if self._prune and proposal.number > 0 and falls_behind(part, score, self._finished()):
                return True
        return False

    def complete(self, proposal: Proposal, score: float, parts: Mapping[int, float], *, steps: int) -> None:
        """End a trial that has come to its end; later ones are compared with its `parts` as they are now."""
        known = self._reported(proposal)
        self._overwrite(proposal, {part: parts.get(part, math.nan) for part in sorted({*known, *parts})})
        proposal.trial.set_user_attr(_STEPS, steps)
        self._study.tell(proposal.trial, score, state=TrialState.COMPLETE)

    def prune(self, proposal: Proposal, *, steps: int) -> None:
        """End a trial that does worse than others did; its newest score is the one that counts."""
        assert proposal.score is not None
        # Optuna takes the last one: an earlier session may have come further than this one.
        later = [part for part in self._reported(proposal) if part > proposal.part]
        self._overwrite(proposal, dict.fromkeys(later, proposal.score))
        proposal.trial.set_user_attr(_STEPS, steps)
        self._study.tell(proposal.trial, state=TrialState.PRUNED)

    def _reported(self, proposal: Proposal) -> Mapping[int, float]:
        return self._storage.get_trial(self._id(proposal.number)).intermediate_values

    def _overwrite(self, proposal: Proposal, scores: Mapping[int, float]) -> None:
        """Set scores that differ; a trial itself can only report a part once."""
        trial, known = self._id(proposal.number), self._reported(proposal)
        for part, score in scores.items():
            if known.get(part) != score:
                self._storage.set_trial_intermediate_value(trial, part, score)

    def _finished(self) -> list[Mapping[int, float]]:
        trials = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return [trial.intermediate_values for trial in trials]

    def _id(self, number: int) -> int:
        study = self._storage.get_study_id_from_name(_NAME)
        return self._storage.get_trial_id_from_study_id_trial_number(study, number)

    def _begun(self) -> list[FrozenTrial]:
        return [trial for trial in self._study.get_trials(deepcopy=False) if trial.state != TrialState.WAITING]

    def _present(self) -> dict[str, Any]:
        """The values without a search, where they lie in the space: the best trial is then never worse than them."""
        drawn = self._drawn([])
        axes = [axis for axis in self._space if axis.dimension.holds(axis.parameter.present)]
        return {**drawn, **{axis.name: axis.parameter.present for axis in axes}}

    def _drawn(self, trials: Sequence[FrozenTrial]) -> dict[str, Any]:
        """What comes after these trials; other values than theirs, which would be the same training again.

        Drawn by a generator of its own, in a copy of the study that is thrown away.
        """
        tried = {_key(trial.params) for trial in trials}
        for attempt in count():
            seed = int(np.random.SeedSequence([self._seed, len(trials), attempt]).generate_state(1)[0])
            copy = optuna.create_study(direction="maximize", sampler=_sampler(seed, attempt))
            copy.add_trials(trials)
            trial = copy.ask()
            values = {axis.name: axis.dimension.suggest(trial, axis.name) for axis in self._space}
            if attempt < PROPOSALS:
                values = {axis.name: axis.dimension.rounded(values[axis.name]) for axis in self._space}
            if _key(values) not in tried:
                break
        return values


class _NamedFile(JournalFileBackend):
    """The file that the journal is appended to. What keeps it from being written names it."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), JournalFileOpenLock(str(path)))
        self._path = path

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with naming(self._path):
            super().append_logs(logs)


def _open(path: Path) -> JournalStorage:
    """The file, without what a process that was killed while writing leaves: the lock, and a line without its end."""
    Path(f"{path}.lock").unlink(missing_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
    return JournalStorage(_NamedFile(path))


def _sampler(seed: int, attempt: int) -> BaseSampler:
    """With the liar, trials that run at the same time keep apart, and the values of failed ones are avoided."""
    if attempt < PROPOSALS:
        return TPESampler(seed=seed, multivariate=True, constant_liar=True)
    return RandomSampler(seed=seed)


def _key(values: Mapping[str, Any]) -> str:
    """By what values are told apart: 1 and true are equal, and yet two choices."""
    return repr(sorted(values.items()))


def _record(trial: FrozenTrial) -> TrialRecord:
    states = {TrialState.COMPLETE: "finished", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
    return TrialRecord(
        number=trial.number,
        state=states.get(trial.state, "running"),  # type: ignore[arg-type]
        values=dict(trial.params),
        score=trial.value,
        steps=trial.user_attrs.get(_STEPS, 0),
    )
