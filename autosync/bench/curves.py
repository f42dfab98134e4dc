"""Searches of one contender on one cell, as curves over their trials.

Notation: s seeds, t trials. Arrays are float64 (s, t); a search that ended before its budget, since nothing was left,
stays where it ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from autosync.stats.estimate import Estimate, share_of

__all__ = ["MOST_REGRET", "ROUND", "Contest", "Curves", "curves_of"]

Floats = npt.NDArray[np.float64]

ROUND = 5
"""Trials of a round, by which the hit-rate is told."""

MOST_REGRET = 1.0
"""The most that a regret counts in the area (100 %), so that one bad start does not outweigh all else."""


class Contest(NamedTuple):
    """One contest: who searched on which cell, and whether baselines were given."""

    cell: str
    searcher: str
    baselines: bool


@final
@dataclass(frozen=True, eq=False)
class Curves:
    """`best` is the least true step time among those timed so far; `clock` the seconds gone by then. `best_seconds` is
    that of the pool's best, and `baseline_seconds` of the best baseline, float64 (s,).

    `measured` is what the searcher was told, and `true` what is true, of each trial; `hits` says which trials are
    faster than the best baseline beyond the noise, NaN for baselines, for what was timed again, and without a trial.
    """

    best_seconds: Floats
    baseline_seconds: Floats
    measured: Floats
    true: Floats
    clock: Floats
    hits: Floats
    thinking_seconds: Floats

    @cached_property
    def best(self) -> Floats:
        return np.asarray(np.minimum.accumulate(self.true, axis=1))

    @property
    def regret(self) -> Floats:
        """The share by which the best so far is slower than the pool's best."""
        return np.asarray(self.best / self.best_seconds[:, None] - 1)

    @property
    def improvement(self) -> Floats:
        """The step time of the best baseline over that of the best so far."""
        return np.asarray(self.baseline_seconds[:, None] / self.best)

    @property
    def area(self) -> Floats:
        """The mean regret over all trials, (s,)."""
        return np.asarray(np.minimum(self.regret, MOST_REGRET).mean(axis=1))

    @property
    def returned_regret(self) -> Floats:
        """The regret of the strategy that was measured fastest, which noise may have made so, (s, t)."""
        rows = np.arange(len(self.measured))[:, None]
        lowest = np.minimum.accumulate(self.measured, axis=1)
        is_new = np.concatenate([np.ones((len(lowest), 1), bool), np.diff(lowest, axis=1) < 0], axis=1)
        at = np.maximum.accumulate(np.where(is_new, np.arange(lowest.shape[1]), 0), axis=1)
        return np.asarray(self.true[rows, at] / self.best_seconds[:, None] - 1)

    def trials_to(self, share: float) -> Floats:
        """Trials until the regret is at most `share`, (s,); infinite where it never was."""
        return self._first(share, np.broadcast_to(np.arange(1.0, 1 + self.true.shape[1]), self.true.shape))

    def seconds_to(self, share: float) -> Floats:
        """Seconds of trials until the regret is at most `share`, (s,); infinite where it never was."""
        return self._first(share, self.clock)

    def hit_rates(self) -> list[tuple[int, Estimate]]:
        """The last trial of each round, and the share of hits among its trials, of all seeds together."""
        rates = []
        for begin in range(0, self.hits.shape[1], ROUND):
            own = self.hits[:, begin : begin + ROUND]
            known = own[np.isfinite(own)]
            if len(known):
                rates.append((begin + own.shape[1], share_of(int(known.sum()), len(known))))
        return rates

    def _first(self, share: float, values: Floats) -> Floats:
        reached = self.regret <= share
        first = np.argmax(reached, axis=1)
        return np.where(reached.any(axis=1), values[np.arange(len(values)), first], np.inf)


def curves_of(rows: Iterable[Mapping[str, Any]]) -> dict[Contest, Curves]:
    """The curves of all contests in `rows`, in the rows' order: of the searches with the largest budget that was run,
    those taught on the same cells, and where these differ, those of which there are most."""
    by_contest: dict[Contest, dict[tuple[int, str], list[Mapping[str, Any]]]] = {}
    for row in rows:
        contest = Contest(row["cell"], row["searcher"], row["baselines"])
        by_contest.setdefault(contest, {}).setdefault((row["trials"], row["taught_on"]), []).append(row)
    found = {}
    for contest, alike in by_contest.items():
        trials, taught_on = max(alike, key=lambda each: (each[0], len(alike[each]), each[1]))
        found[contest] = _curves(alike[trials, taught_on], trials)
    return found


def _curves(rows: Sequence[Mapping[str, Any]], trials: int) -> Curves:
    rows = sorted(rows, key=lambda row: row["seed"])
    hits = [
        [hit if purpose == "search" else np.nan for hit, purpose in zip(row["hits"], row["purposes"], strict=True)]
        for row in rows
    ]
    measured = [[np.inf if each is None else each for each in row["measured_seconds"]] for row in rows]
    return Curves(
        best_seconds=np.array([row["best_seconds"] for row in rows]),
        baseline_seconds=np.array([row["baseline_seconds"] for row in rows]),
        measured=_padded(measured, trials, np.inf),
        true=_padded([row["true_seconds"] for row in rows], trials, np.inf),
        clock=np.maximum.accumulate(_padded([row["clock_seconds"] for row in rows], trials, 0.0), axis=1),
        hits=_padded(hits, trials, np.nan),
        thinking_seconds=np.array([row["search_seconds"] for row in rows]),
    )


def _padded(lists: Sequence[Sequence[float]], length: int, filling: float) -> Floats:
    return np.array([[*each, *[filling] * (length - len(each))] for each in lists], np.float64)
