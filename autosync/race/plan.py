"""Plans a race: chooses the next run from the runs so far."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import final

from autosync.race.candidates import PLAIN_NAME, Candidate
from autosync.race.effects import effects, predict_effect
from autosync.race.times import Times
from autosync.spec import CurvePoint, TargetRecord

WORTH = math.log(1.03)
"""The predicted gain over the best candidate so far, as a logarithm, below which a combination is not tried."""

LEADERS = 3
"""The largest number of combinations that train on all seeds."""


@dataclass(frozen=True)
class PlannedRun:
    """A run to make; training gives it up when it falls far behind the `rival`'s curve."""

    candidate: Candidate
    seed: int
    rival: tuple[CurvePoint, ...] = ()


@final
@dataclass
class Race:
    """The runs so far and the plan that follows from them; the same records give the same plan.

    The named candidates train on the first seed. Combinations follow, the most promising first: the effects of their
    parts on steps and on seconds are assumed to multiply. Then all named candidates and the best few combinations train
    on the other seeds, the fastest first and seed by seed, so that stopping at any moment leaves complete pairs.
    """

    named: Sequence[Candidate]
    """The plain strategy and the single disciplines, in the order to run them."""
    combinations: Sequence[Candidate]
    """The combinations that may be tried, of two or more single disciplines."""
    seeds: int
    """The number of seeds."""
    most_combinations: int
    """The largest number of combinations to try."""
    runs: int
    """The largest number of runs."""
    done: dict[tuple[str, int], TargetRecord] = field(default_factory=dict)
    """The record of each finished run, by candidate name and seed."""
    times: Times = field(default_factory=Times)
    """The times to the target so far."""
    lost: set[tuple[str, int]] = field(default_factory=set)
    """The runs that were lost with a process once; a second loss counts as a failure."""

    def note(self, record: TargetRecord) -> None:
        """Add the record of a run; its label is the candidate's name.

        A run that was lost with a process is repeated once, because the loss is not the candidate's fault.
        """
        key = record.label, record.seed
        if record.outcome == "lost" and key not in self.lost:
            self.lost.add(key)
            return
        self.done.setdefault((record.label, record.seed), record)
        rival = self.rival(record.seed, record.label)
        self.times.note(record.label, record, rival[-1].seconds if rival else math.inf)

    def next(self, under_way: Collection[tuple[str, int]] = ()) -> PlannedRun | None:
        """Return the next run that is not `under_way` (names and seeds).

        None means that the race is over or must wait for runs under way, because combinations, and the order on the
        other seeds, depend on all runs on the first seed.
        """
        if len(self.done) + len(under_way) >= self.runs:
            return None
        if first := self._first_seed(under_way):
            return first
        if any(seed == 0 for _, seed in under_way):
            return None
        return self._next_combination() or self._other_seeds(under_way)

    @property
    def candidates(self) -> dict[str, Candidate]:
        return {candidate.name: candidate for candidate in (*self.named, *self.combinations)}

    def ranking(self) -> list[Candidate]:
        """Return the candidates that have trained without a failure, the fastest first."""
        known = self.candidates
        names = sorted((name for name in self.times.by_candidate if name in known), key=self.times.mean)
        return [known[name] for name in names if name not in self.times.faults]

    def rival(self, seed: int, name: str) -> tuple[CurvePoint, ...]:
        """Return the curve of the fastest run to the target by another candidate, on this seed if there is such a run.

        The plain strategy has no rival, because the reference of every comparison must not be given up.
        """
        if name == PLAIN_NAME:
            return ()
        reached = [
            (key[1] != seed, record.seconds, record.curve)
            for key, record in self.done.items()
            if record.outcome == "reached" and key[0] != name
        ]
        return min(reached, key=lambda run: run[:2])[2] if reached else ()

    def _plan(self, candidate: Candidate, seed: int) -> PlannedRun | None:
        if (candidate.name, seed) in self.done or candidate.name in self.times.faults:
            return None
        return PlannedRun(candidate, seed, self.rival(seed, candidate.name))

    def _first_seed(self, under_way: Collection[tuple[str, int]]) -> PlannedRun | None:
        waiting = (candidate for candidate in self.named if (candidate.name, 0) not in under_way)
        return next((planned for candidate in waiting if (planned := self._plan(candidate, 0))), None)

    def _next_combination(self) -> PlannedRun | None:
        tried = {name for name, _ in self.done}
        if (
            len(tried - {candidate.name for candidate in self.named}) >= self.most_combinations
            or PLAIN_NAME not in self.times.by_candidate
        ):
            return None
        of_parts = effects(self.named, self.times)
        best = min(math.log(self.times.mean(name) / self.times.mean(PLAIN_NAME)) for name in self.times.by_candidate)
        hopes = []
        for combination in self.combinations:
            effect = None if combination.name in tried else predict_effect(combination, of_parts)
            if effect is not None and effect.log_seconds < best - WORTH:
                hopes.append((effect.log_seconds - effect.deviation, combination.name, combination))
        return self._plan(min(hopes, key=lambda hope: hope[:2])[2], 0) if hopes else None

    def _other_seeds(self, under_way: Collection[tuple[str, int]]) -> PlannedRun | None:
        names = {candidate.name for candidate in self.named}
        ranking = self.ranking()
        leaders = [candidate for candidate in ranking if candidate.name not in names][:LEADERS]
        order = [candidate for candidate in ranking if candidate.name in names or candidate in leaders]
        order.sort(key=lambda candidate: candidate.name != PLAIN_NAME)  # the reference of every comparison goes first
        for seed in range(1, self.seeds):
            for candidate in order:
                if (candidate.name, seed) not in under_way and (planned := self._plan(candidate, seed)):
                    return planned
        return None
