"""The trials of a search in Optuna's journal, a file to which every event is appended.

The process that opens it must hold the lease of the search, because it repairs what a killed process left incomplete.
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

from revd.tuning.directory import name_file_in_errors
from revd.tuning.parameters import SearchSpace
from revd.tuning.pruning import is_below_median
from revd.tuning.records import TrialRecord

#: How often the sampler may propose values that were already tried, before values are drawn at random.
SAMPLER_ATTEMPTS = 10

_NAME = "revd"
_STEPS = "steps"


class JournalTrial:
    """An unfinished trial in the journal.

    Attributes:
        number: Its number, from 0.
        values: Its parameters by name.
        part: The newest part that has a score; 0 if none has.
        score: The score of that part.
        reported: The scores that were already considered for pruning, by part.
        optuna_trial: The trial as Optuna's object.
    """

    def __init__(self, trial: Trial, space: SearchSpace) -> None:
        self.values: Mapping[str, Any] = _suggest(trial, space)
        self.number = trial.number
        self.optuna_trial = trial
        stored = trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        self.part = max(stored, default=0)
        self.score: float | None = stored.get(self.part)
        # A process may have been killed after it wrote the newest score, before it decided about pruning.
        self.reported = {part: score for part, score in stored.items() if part < self.part}


class Journal:
    """All trials of a search.

    Args:
        path: The file; created if it does not exist.
        space: The search space.
        seed: Seed of the sampler. Each trial has its own generator, made of this seed and the trial's number, so that
            interruptions do not change the sampled values.
        prune: Whether bad trials are pruned.
    """

    def __init__(self, path: Path, space: SearchSpace, *, seed: int, prune: bool) -> None:
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
        """Number of begun trials."""
        return len(self._begun())

    def records(self) -> list[TrialRecord]:
        """All begun trials, in order."""
        return [_record(trial) for trial in self._begun()]

    def unfinished(self) -> list[JournalTrial]:
        """The trials that an earlier process began and did not end, including failed ones."""
        numbers = [trial.number for trial in self._begun() if trial.state == TrialState.RUNNING]
        return [JournalTrial(Trial(self._study, self._id(number)), self._space) for number in numbers]

    def begin(self) -> JournalTrial:
        """Begin a trial with the most promising values."""
        trials = self._study.get_trials(deepcopy=False)
        if not any(trial.state == TrialState.WAITING for trial in trials):
            # All values are stored before the trial begins, so that an interruption does not change them.
            self._study.enqueue_trial(self._sample_values(trials) if trials else self._default_values())
        return JournalTrial(self._study.ask(), self._space)

    def should_prune(self, trial: JournalTrial, scores: Mapping[int, float]) -> bool:
        """Store new scores in order, until one of them prunes the trial; return whether one does.

        A run that was reset to its checkpoint passes some parts again, with other scores. Those are stored, too.
        """
        for part, score in scores.items():
            if trial.reported.get(part) == score:
                continue
            self._overwrite(trial, {part: score})
            trial.reported[part] = score
            trial.part, trial.score = part, score
            # The first trial, with the default values, is never pruned: all others are compared with it.
            if self._prune and trial.number > 0 and is_below_median(part, score, self._finished()):
                return True
        return False

    def complete(self, trial: JournalTrial, score: float, parts: Mapping[int, float], *, steps: int) -> None:
        """Complete a trial; later trials are compared with its final `parts`."""
        known = self._reported(trial)
        self._overwrite(trial, {part: parts.get(part, math.nan) for part in sorted({*known, *parts})})
        trial.optuna_trial.set_user_attr(_STEPS, steps)
        self._study.tell(trial.optuna_trial, score, state=TrialState.COMPLETE)

    def prune(self, trial: JournalTrial, *, steps: int) -> None:
        """Prune a trial; its score is the newest one."""
        assert trial.score is not None
        # Optuna takes the score of the last part, which an earlier session may have reported.
        later = [part for part in self._reported(trial) if part > trial.part]
        self._overwrite(trial, dict.fromkeys(later, trial.score))
        trial.optuna_trial.set_user_attr(_STEPS, steps)
        self._study.tell(trial.optuna_trial, state=TrialState.PRUNED)

    def _reported(self, trial: JournalTrial) -> Mapping[int, float]:
        return self._storage.get_trial(self._id(trial.number)).intermediate_values

    def _overwrite(self, trial: JournalTrial, scores: Mapping[int, float]) -> None:
        """Set scores that differ, in the storage: Optuna's trial can report each part only once."""
        trial_id, known = self._id(trial.number), self._reported(trial)
        for part, score in scores.items():
            if known.get(part) != score:
                self._storage.set_trial_intermediate_value(trial_id, part, score)

    def _finished(self) -> list[Mapping[int, float]]:
        trials = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return [trial.intermediate_values for trial in trials]

    def _id(self, number: int) -> int:
        study = self._storage.get_study_id_from_name(_NAME)
        return self._storage.get_trial_id_from_study_id_trial_number(study, number)

    def _begun(self) -> list[FrozenTrial]:
        return [trial for trial in self._study.get_trials(deepcopy=False) if trial.state != TrialState.WAITING]

    def _default_values(self) -> dict[str, Any]:
        """The values of the first trial: defaults, where the space contains them.

        So the best trial is never worse than the defaults.
        """
        dimensions = [each for each in self._space if each.candidates.contains(each.parameter.default)]
        return {**self._sample_values([]), **{each.name: each.parameter.default for each in dimensions}}

    def _sample_values(self, trials: Sequence[FrozenTrial]) -> dict[str, Any]:
        """Sample values that none of these trials has.

        Each trial has its own generator, in a temporary copy of the study.
        """
        tried = {_key(trial.params) for trial in trials}
        for attempt in count():
            seed = int(np.random.SeedSequence([self._seed, len(trials), attempt]).generate_state(1)[0])
            copy = optuna.create_study(direction="maximize", sampler=_sampler(seed, attempt))
            copy.add_trials(trials)
            values = _suggest(copy.ask(), self._space)
            if attempt < SAMPLER_ATTEMPTS:
                values = {each.name: each.candidates.rounded(values[each.name]) for each in self._space}
            if _key(values) not in tried:
                break
        return values


class _JournalFile(JournalFileBackend):
    """A journal file whose write errors name the file."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), JournalFileOpenLock(str(path)))
        self._path = path

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with name_file_in_errors(self._path):
            super().append_logs(logs)


def _open(path: Path) -> JournalStorage:
    """Open the file, after removing the lock and the incomplete last line of a killed process."""
    Path(f"{path}.lock").unlink(missing_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
    return JournalStorage(_JournalFile(path))


def _suggest(trial: Trial, space: SearchSpace) -> dict[str, Any]:
    return {dimension.name: dimension.candidates.suggest(trial, dimension.name) for dimension in space}


def _sampler(seed: int, attempt: int) -> BaseSampler:
    """TPE; its constant liar separates simultaneous trials and avoids the values of failed ones."""
    if attempt < SAMPLER_ATTEMPTS:
        return TPESampler(seed=seed, multivariate=True, constant_liar=True)
    return RandomSampler(seed=seed)


def _key(values: Mapping[str, Any]) -> str:
    """A key of values in which 1 and True differ, although they are equal."""
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
