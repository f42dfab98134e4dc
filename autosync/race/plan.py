"""Which run is next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

from autosync.race.candidates import PLAIN_NAME, Candidate
from autosync.race.effects import effects, expected
from autosync.race.times import Times
from autosync.spec import CurvePoint, TargetRecord

WORTH = math.log(1.03)
"""By how much at least a combination is to be faster than the best so far, as a logarithm, if it is to be tried."""

LEADERS = 3
"""How many combinations at most are trained with on all seeds."""


@dataclass(frozen=True)
class Planned:
    """A run to come; it is given up when far behind the curve of `rival`."""

    candidate: Candidate
    seed: int
    rival: tuple[CurvePoint, ...] = ()


@final
@dataclass
class Race:
    """The runs so far, and what follows from them; the same records lead to the same plan.

    First everyone of the menu trains on the first seed. Then come combinations, the most promising first: their parts'
    effects on steps and on seconds are taken to multiply. Then everyone trains on the other seeds too, the fastest
    first, and of the combinations the best few; seed by seed, so that an end at any moment leaves pairs.
    """

    named: Sequence[Candidate]
    combinations: Sequence[Candidate]
    seeds: int
    most_combinations: int
    runs: int
    done: dict[tuple[str, int], TargetRecord] = field(default_factory=dict)
    times: Times = field(default_factory=Times)
    lost: set[tuple[str, int]] = field(default_factory=set)

    def note(self, record: TargetRecord) -> None:
        """Take up the record of a run, whose label is the candidate's name.

        One that was lost with a process is made again, once: that is not the candidate's fault.
        """
        key = record.label, record.seed
        if record.outcome == "lost" and key not in self.lost:
            self.lost.add(key)
            return
        self.done.setdefault((record.label, record.seed), record)
        rival = self.rival(record.seed, record.label)
        self.times.note(record.label, record, rival[-1].seconds if rival else math.inf)

    def next(self) -> Planned | None:
        """The next run, or None when the race is over."""
        if len(self.done) >= self.runs:
            return None
        return self._first_seed() or self._combined() or self._other_seeds()

    @property
    def candidates(self) -> dict[str, Candidate]:
        return {each.name: each for each in (*self.named, *self.combinations)}

    def tried(self) -> list[Candidate]:
        """Those that have been trained with, the fastest first; those that failed are not among them."""
        known = self.candidates
        names = sorted((name for name in self.times.of if name in known), key=self.times.mean)
        return [known[name] for name in names if name not in self.times.faults]

    def rival(self, seed: int, name: str) -> tuple[CurvePoint, ...]:
        """The curve of the fastest run to the target so far but for `name`'s own: of this seed if there is one.

        The plain strategy has none: what others are compared with is not given up.
        """
        if name == PLAIN_NAME:
            return ()
        reached = [
            (key[1] != seed, record.seconds, record.curve)
            for key, record in self.done.items()
            if record.outcome == "reached" and key[0] != name
        ]
        return min(reached, key=lambda each: each[:2])[2] if reached else ()

    def _planned(self, candidate: Candidate, seed: int) -> Planned | None:
        if (candidate.name, seed) in self.done or candidate.name in self.times.faults:
            return None
        return Planned(candidate, seed, self.rival(seed, candidate.name))

    def _first_seed(self) -> Planned | None:
        return next((found for each in self.named if (found := self._planned(each, 0))), None)

    def _combined(self) -> Planned | None:
        tried = {name for name, _ in self.done}
        if len(tried - {each.name for each in self.named}) >= self.most_combinations or PLAIN_NAME not in self.times.of:
            return None
        of_parts = effects(self.named, self.times)
        best = min(math.log(self.times.mean(name) / self.times.mean(PLAIN_NAME)) for name in self.times.of)
        hopes = []
        for each in self.combinations:
            found = None if each.name in tried else expected(each, of_parts)
            if found is not None and found.log_seconds < best - WORTH:
                hopes.append((found.log_seconds - found.deviation, each.name, each))
        return self._planned(min(hopes, key=lambda each: each[:2])[2], 0) if hopes else None

    def _other_seeds(self) -> Planned | None:
        names = {each.name for each in self.named}
        tried = self.tried()
        leaders = [each for each in tried if each.name not in names][:LEADERS]
        order = [each for each in tried if each.name in names or each in leaders]
        order.sort(key=lambda each: each.name != PLAIN_NAME)  # what all are compared with goes first
        for seed in range(1, self.seeds):
            for each in order:
                if found := self._planned(each, seed):
                    return found
        return None
