"""Contests compared: over cells, against random search, and against what the search was built to reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest

from autosync.bench.curves import Contest, Curves
from autosync.stats.estimate import Estimate, estimate_of, median_of, resampled, share_of

__all__ = ["CLOSE", "YARDSTICK", "Standings"]

Floats = npt.NDArray[np.float64]

YARDSTICK = "random"
CLOSE = (0.05, 0.01)
"""Regrets that count as close to the best."""

LEAST_AREA = 0.005
"""The least area that is counted, so that no ratio is one of noise."""

LEAST_SPEEDUP = 1e-3
"""The speed-up of a search that has timed nothing yet."""


@final
@dataclass(frozen=True, eq=False)
class Standings:
    """Contests with, or without, baselines given; `curves` has those alone."""

    curves: Mapping[Contest, Curves]

    @classmethod
    def of(cls, curves: Mapping[Contest, Curves], baselines: bool) -> Standings:
        return cls({contest: each for contest, each in curves.items() if contest.baselines == baselines})

    def only(self, wanted: Callable[[str], bool]) -> Standings:
        """The standings of searchers whose name is `wanted`."""
        return Standings({contest: each for contest, each in self.curves.items() if wanted(contest.searcher)})

    def undecided(self) -> Standings:
        """The standings on cells where no baseline is close to the best, by most seeds: in all others baselines alone
        come close."""
        far = 1 + CLOSE[0]
        return Standings(
            {
                contest: each
                for contest, each in self.curves.items()
                if np.median(each.baseline_seconds / each.best_seconds) > far
            }
        )

    @property
    def cells(self) -> list[str]:
        return sorted({contest.cell for contest in self.curves})

    @property
    def searchers(self) -> list[str]:
        """The searchers that searched on all cells on which any did, fewest trials first."""
        there: dict[str, set[str]] = {}
        for contest in self.curves:
            there.setdefault(contest.searcher, set()).add(contest.cell)
        names = [name for name, cells in there.items() if len(cells) == len(self.cells)]
        areas = {name: float(np.mean([each.area.mean() for each in self.own(name).values()])) for name in names}
        return sorted(names, key=lambda name: (self.trials(name).value, areas[name]))

    def own(self, searcher: str) -> dict[str, Curves]:
        """The searcher's curves by cell."""
        return {contest.cell: each for contest, each in self.curves.items() if contest.searcher == searcher}

    def trials(self, searcher: str, share: float = CLOSE[0]) -> Estimate:
        """The median of trials to within `share`, over all cells and seeds."""
        return median_of(np.concatenate([each.trials_to(share) for each in self.own(searcher).values()]))

    def area(self, searcher: str) -> Estimate:
        """The mean over cells of the seeds' mean area under the regret curve."""
        return estimate_of(resampled([each.area for each in self.own(searcher).values()], np.mean).mean(axis=1))

    def reached(self, searcher: str, share: float, trials: int) -> Estimate:
        """The share of searches that were within `share` after `trials`."""
        found = np.concatenate([each.trials_to(share) for each in self.own(searcher).values()])
        return share_of(int((found <= trials).sum()), len(found))

    def fewer_trials(self, searcher: str, than: str, share: float = CLOSE[0]) -> Estimate:
        """The trials that `than` needs over those of `searcher`: geometric mean over cells of the ratio of medians.

        Searches that did not come so close count as having done it with the trial after their last, so that where
        `than` often did not, this says too little.
        """

        def counted(curves: Curves) -> Floats:
            return np.minimum(curves.trials_to(share), curves.true.shape[1] + 1.0)

        return self._times(searcher, than, counted, np.median)

    def less_area(self, searcher: str, than: str) -> Estimate:
        """The area of `than` over that of `searcher`: geometric mean over cells of the ratio of means."""
        return self._times(searcher, than, lambda curves: np.maximum(curves.area, LEAST_AREA), np.mean)

    def cells_with_less_area(self, searcher: str, than: str) -> tuple[int, int, float]:
        """Number of cells in which `searcher` has less area than `than`, of those in which they differ, and how likely
        at least so uneven a count is when neither is better (sign test, two-sided)."""
        own, others = self.own(searcher), self.own(than)
        gains = [others[cell].area.mean() - each.area.mean() for cell, each in own.items() if cell in others]
        better, differ = sum(gain > 0 for gain in gains), sum(gain != 0 for gain in gains)
        return better, differ, float(binomtest(better, differ).pvalue) if differ else 1.0

    def improvement(self, searcher: str, trials: int) -> Estimate:
        """The geometric mean over cells and seeds of the speed-up over the best baseline after `trials`."""
        own = self.own(searcher).values()
        logs = [np.log(np.maximum(each.improvement[:, :trials][:, -1], LEAST_SPEEDUP)) for each in own]
        return estimate_of(np.exp(resampled(logs, np.mean).mean(axis=1)))

    def returned(self, searcher: str, trials: int) -> Estimate:
        """The median regret, after `trials`, of the strategy that was measured fastest, over all cells and seeds."""
        own = self.own(searcher).values()
        return median_of(np.concatenate([each.returned_regret[:, :trials][:, -1] for each in own]))

    def _times(
        self, searcher: str, than: str, values: Callable[[Curves], Floats], centre: Callable[..., Floats]
    ) -> Estimate:
        own, others = self.own(searcher), self.own(than)
        cells = [cell for cell in own if cell in others]
        ours = resampled([values(own[cell]) for cell in cells], centre, seed=0)
        theirs = resampled([values(others[cell]) for cell in cells], centre, seed=1)
        return estimate_of(np.exp(np.log(theirs / ours).mean(axis=1)))
