"""Who was first, by how much, and how sure that is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autosync.race.candidates import PLAIN_NAME, Candidate
from autosync.race.plan import Race
from autosync.race.times import Times, speed_up
from autosync.stats.estimate import Estimate


@dataclass(frozen=True)
class Place:
    """A candidate's part in the outcome: over how many seeds, of which so many reached the target; medians over those
    that did; and how many times as fast as plain training it was.
    """

    candidate: Candidate
    seeds: int
    reached: int
    seconds: float
    steps: float
    step_seconds: float
    over_plain: Estimate


@dataclass(frozen=True)
class Verdict:
    """All that took part, the fastest first. The `winner` is the first; `proven` says whether it is surely faster than
    plain training, by the lower end of its interval over the `judged` seeds. If not, the plain strategy is `returned`.
    """

    places: tuple[Place, ...]
    judged: tuple[int, ...]
    winner: Candidate
    proven: bool
    returned: Candidate

    def over(self, times: Times, name: str) -> Estimate:
        """How many times as fast as candidate `name` the winner was."""
        return speed_up(times, self.winner.name, name, self.judged)


def verdict(race: Race) -> Verdict | None:
    """The outcome of what has been run; None while no plain run has reached the target.

    The first seed chose what was tried on others, so where there are two more it does not judge.
    """
    times, known = race.times, race.candidates
    plain = times.seeds(PLAIN_NAME)
    if not any(each.reached for each in plain.values()):
        return None
    judged = _judged(sorted(plain))
    places = [_place(known[name], times, judged) for name in times.of if name in known]
    whole = [each for each in places if set(judged) <= set(times.seeds(each.candidate.name))]
    places.sort(key=lambda each: (each not in whole, -_ratio(each)))
    winner = max((each for each in whole if _is_there(each)), key=_ratio)
    proven = winner.over_plain.low > 1 and winner.candidate.name != PLAIN_NAME
    returned = winner.candidate if proven else known[PLAIN_NAME]
    return Verdict(tuple(places), judged, winner.candidate, proven, returned)


def _judged(seeds: Sequence[int]) -> tuple[int, ...]:
    return tuple(seeds[1:] if len(seeds) > 2 else seeds)


def _is_there(place: Place) -> bool:
    """Whether all of its runs have reached the target; those of the plain strategy need not have."""
    return place.reached == place.seeds or place.candidate.name == PLAIN_NAME


def _ratio(place: Place) -> float:
    return place.over_plain.value if math.isfinite(place.over_plain.value) else 0.0


def _place(candidate: Candidate, times: Times, judged: Sequence[int]) -> Place:
    own = times.seeds(candidate.name)
    reached = [each for each in own.values() if each.reached]

    def median(values: Sequence[float]) -> float:
        return statistics.median(values) if values else math.nan

    return Place(
        candidate,
        len(own),
        len(reached),
        median([each.seconds for each in reached]),
        median([each.steps for each in reached]),
        median([each.step_seconds for each in own.values()]),
        speed_up(times, candidate.name, PLAIN_NAME, judged),
    )
