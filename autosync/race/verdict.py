"""The outcome of a race: the winner, its speed-up, and whether the speed-up is significant."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from autosync.race.candidates import PLAIN_NAME, Candidate
from autosync.race.plan import Race
from autosync.race.times import Times, speedup
from autosync.stats.estimate import Estimate


@dataclass(frozen=True)
class CandidateResult:
    """One candidate's result; medians are over the runs that reached the target."""

    candidate: Candidate
    seeds: int
    """The number of seeds with a run."""
    reached: int
    """The number of runs that reached the target."""
    seconds: float
    """Median seconds to the target; NaN if no run reached it."""
    steps: float
    """Median steps to the target; NaN if no run reached it."""
    step_seconds: float
    """Median seconds a step over all runs."""
    over_plain: Estimate
    """The speed-up over plain training."""


@dataclass(frozen=True)
class RaceVerdict:
    """The outcome of a race."""

    results: tuple[CandidateResult, ...]
    """All candidates, the fastest first."""
    judged: tuple[int, ...]
    """The seeds that decide."""
    winner: Candidate
    """The fastest candidate that reached the target on all of its seeds."""
    proven: bool
    """True if the lower end of the winner's interval over `judged` is above plain training."""
    returned: Candidate
    """The winner if `proven`, otherwise the plain strategy."""

    def over(self, times: Times, name: str) -> Estimate:
        """Return how many times faster the winner was than candidate `name`."""
        return speedup(times, self.winner.name, name, self.judged)


def verdict(race: Race) -> RaceVerdict | None:
    """Return the outcome of the runs so far; None until a plain run has reached the target.

    The first seed selects the candidates for the other seeds. To avoid that bias, it does not decide if two more exist.
    """
    times, known = race.times, race.candidates
    plain = times.seeds(PLAIN_NAME)
    if not any(time.reached for time in plain.values()):
        return None
    judged = _deciding_seeds(sorted(plain))
    results = [_result_of(known[name], times, judged) for name in times.by_candidate if name in known]
    complete = [result for result in results if set(judged) <= set(times.seeds(result.candidate.name))]
    results.sort(key=lambda result: (result not in complete, -_ratio(result)))
    winner = max((result for result in complete if _has_reached(result)), key=_ratio)
    proven = winner.over_plain.low > 1 and winner.candidate.name != PLAIN_NAME
    returned = winner.candidate if proven else known[PLAIN_NAME]
    return RaceVerdict(tuple(results), judged, winner.candidate, proven, returned)


def _deciding_seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    return tuple(seeds[1:] if len(seeds) > 2 else seeds)


def _has_reached(result: CandidateResult) -> bool:
    """True if all runs reached the target, or the candidate is the plain strategy."""
    return result.reached == result.seeds or result.candidate.name == PLAIN_NAME


def _ratio(result: CandidateResult) -> float:
    return result.over_plain.value if math.isfinite(result.over_plain.value) else 0.0


def _result_of(candidate: Candidate, times: Times, judged: Sequence[int]) -> CandidateResult:
    runs = times.seeds(candidate.name)
    reached = [run for run in runs.values() if run.reached]

    def median(values: Sequence[float]) -> float:
        return statistics.median(values) if values else math.nan

    return CandidateResult(
        candidate,
        len(runs),
        len(reached),
        median([run.seconds for run in reached]),
        median([run.steps for run in reached]),
        median([run.step_seconds for run in runs.values()]),
        speedup(times, candidate.name, PLAIN_NAME, judged),
    )
