"""Cut-offs (K-sync SGD): Elfving's counts, and all policies under several kinds of variation of passes."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autosync.control.expected import elfving
from autosync.control.window import best_count
from autosync.spec import CutOff
from autosync.stats.estimate import Estimate
from studies.literature.experiment import Claim, Experiment, WorkItem, exactly, mean_ratio, work_per_seed
from studies.literature.rows import FigureRow, FigureRows
from studies.literature.waiting import REGIMES, REPLICAS, oracle, simulate_cut_off

RATE, OVER, COUNT, CHANGES, MICROSECONDS = (
    "gradients a second",
    "over the best static count",
    "replicas waited for",
    "steps with another count",
    "us a decision",
)
STEPS = 3000
NAIVE = ("elfving", "empirical", "learned")
BEST = "best static"
ARMS = {
    **{f"first {count}": CutOff(count) for count in range(1, REPLICAS)},
    "all": CutOff(REPLICAS),
    **{policy: CutOff(policy=policy) for policy in ("elfving", "empirical", "filter", "bandit", "learned")},
    **{f"{policy}, naive": CutOff(policy=policy, imputes="naive") for policy in NAIVE},
}

ELFVING = {1.2: 4, 1.5: 4, 2.0: 4, 2.5: 4, 2.7: 3, 2.8: 3, 3.0: 1, 4.0: 1, 6.0: 2}
"""The number of replicas that Elfving's rule waits for, by the seconds of one slow replica; the other three take 1
s."""


def _elfving(_seeds: int) -> Iterator[WorkItem]:
    def counts() -> list[FigureRow]:
        rows = []
        for factor in ELFVING:
            cell = f"one {factor:g} times as slow"
            count = best_count(elfving(np.array([1.0, 1.0, 1.0, factor]), REPLICAS))
            rows.append(FigureRow(cell, "elfving", 0, COUNT, count))
            rates = {number: number / (1.0 if number < REPLICAS else factor) for number in range(1, REPLICAS + 1)}
            rows.append(FigureRow(cell, "elfving", 0, RATE, rates[count]))
            rows.append(FigureRow(cell, "all", 0, RATE, rates[REPLICAS]))
            rows.append(FigureRow(cell, "first 3", 0, RATE, rates[3]))
        return rows

    yield WorkItem("counts", counts)


def _elfving_claims(rows: FigureRows) -> Iterator[Claim]:
    right = [
        rows.values(f"one {factor:g} times as slow", "elfving", COUNT).get(0) == count
        for factor, count in ELFVING.items()
    ]
    yield Claim("the counts that arithmetic gives", exactly(sum(right)), len(ELFVING), len(ELFVING), len(ELFVING))
    for factor, least in ((2.0, 1.4), (3.0, 2.0)):
        cell = f"one {factor:g} times as slow"
        gained = rows.ratios(cell, "first 3", "all", RATE)
        yield Claim(f"first 3 of 4 over all, {cell}", mean_ratio(gained), least, bound=3 / 4 * factor)


def _regimes(seeds: int) -> Iterator[WorkItem]:
    return work_per_seed(REGIMES, seeds, _of_regime)


def _of_regime(name: str, seed: int) -> list[FigureRow]:
    times = REGIMES[name](np.random.default_rng(seed), STEPS)
    by_arm = {arm: simulate_cut_off(waits, times) for arm, waits in ARMS.items()}
    best = max(by_arm[arm].rate for arm, waits in ARMS.items() if waits.first is not None)
    rows = [
        FigureRow(name, BEST, seed, RATE, best),
        FigureRow(name, "oracle", seed, RATE, oracle(times)),
        FigureRow(name, "oracle", seed, OVER, oracle(times) / best),
    ]
    for arm, figures_of_arm in by_arm.items():
        figures = {
            RATE: figures_of_arm.rate,
            OVER: figures_of_arm.rate / best,
            COUNT: figures_of_arm.mean_count,
            CHANGES: figures_of_arm.changes,
        }
        rows += [FigureRow(name, arm, seed, figure, value) for figure, value in figures.items()]
        rows.append(FigureRow(name, arm, seed, MICROSECONDS, figures_of_arm.decision_seconds * 1e6, "real"))
    return rows


def _regime_claims(rows: FigureRows) -> Iterator[Claim]:
    for cell, least in (("slow rack", 1.25), ("i.i.d.", 0.97), ("one slow", 0.93)):
        bound = mean_ratio(rows.ratios(cell, "oracle", BEST, RATE)).value
        for arm in ("filter", "learned"):
            yield Claim(f"{arm} over the best static count, {cell}", _over(rows, cell, arm, BEST), least, bound=bound)
    for arm in ("empirical", "learned"):
        yield Claim(
            f"{arm}: unseen times taken as longer than the wait, over taken as any time, slow rack",
            _over(rows, "slow rack", arm, f"{arm}, naive"),
            1.10,
        )
    for cell in rows.cells:
        yield Claim(f"learned over filter, {cell}", _over(rows, cell, "learned", "filter"))
    fastest = max((_over(rows, "spikes", arm, BEST).value for arm in ARMS if ARMS[arm].policy), default=0.0)
    yield Claim("spikes: the best policy over the best static count", exactly(fastest), most=1.0)
    decided = [value for cell in rows.cells for arm in ARMS for value in rows.values(cell, arm, MICROSECONDS).values()]
    slowest = max(decided, default=math.nan)
    yield Claim("the slowest policy's median decision, in us", exactly(slowest), most=1000.0)


def _over(rows: FigureRows, cell: str, arm: str, over: str) -> Estimate:
    return mean_ratio(rows.ratios(cell, arm, over, RATE))


EXPERIMENTS = (
    Experiment("elfving", "Elfving's counts with one slow replica", 1, _elfving, _elfving_claims, RATE),
    Experiment("cut-offs", "For whom to wait: all policies, by how passes vary", 1, _regimes, _regime_claims, OVER),
)
