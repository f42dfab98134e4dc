"""Simulates false positives and power of verdicts: `python -m studies.by_hand.bench_judging [RECORDS ...]`.

Finals of `--candidates` strategies and one baseline are drawn many times. Rows of the first table are kinds of noise of
a trial's log median without any true difference, so every proven gain is false. *Kept* noise consists of the residuals
of finals in folders of records (the shipped ones by default): whole rounds of a search's finals are drawn without
replacement, with a random sign for each round. `--effects` in the second table are true gains, in standard deviations
of a trial.

- *before*: two looks by Student's interval, the method until issue 53: 6 rounds of all strategies, then 12 new rounds
  of the best two. With one step in each round its bootstrap is Student's standard error.
- *now*: looks as in `autosync.search.verdict.looks`; *cut* ends after the number of rounds that a time budget allows.

Numbers in brackets are mean rounds. With 4,000 draws a share of 2.5 % has a precision of 0.5 % (95 %).
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from autosync.dataset import RecordStore
from autosync.numeric import FloatArray
from autosync.search.verdict.looks import Looks
from autosync.stats.paired import ERROR, interval_of, pool_noise, speedup_of

Draw = Callable[[np.random.Generator, int, int], FloatArray]
"""Draws log medians, (strategies, rounds), from a generator and both counts."""

SHIPPED = [Path("runtimes/bench") / name / "records" for name in ("rivals", "paced", "moved")]
ROUNDS, MOST = 6, 18


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, nargs="*", default=SHIPPED)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--candidates", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--effects", type=float, nargs="+", default=[0.5, 1.0, 1.5, 2.0, 4.0, 10.0])
    options = parser.parse_args()
    kinds = NOISES | {"kept finals": kept_noise(residuals_of(options.records))}
    generator = np.random.default_rng(0)
    print("False gains | candidates | before | now | cut at 6 | cut at 4 | intervals that hold the truth")
    for kind, draw in kinds.items():
        for candidates in options.candidates:
            drawn = [draw(generator, candidates + 1, MOST) for _ in range(options.draws)]
            shares = [in_words(way, drawn) for way in (before, now, cut_at_6, cut_at_4)]
            print(" | ".join([kind, str(candidates), *shares, f"{coverage(drawn):.3f}"]), flush=True)
    print("\nPower | effect | before | now | cut at 6")
    for kind, draw in kinds.items():
        for effect in options.effects:
            drawn = [slow_baseline(draw(generator, 4, MOST), effect) for _ in range(options.draws // 4)]
            shares = [in_words(way, drawn) for way in (before, now, cut_at_6)]
            print(" | ".join([kind, f"{effect:g} sd", *shares]), flush=True)


def _bimodal(generator: np.random.Generator, strategies: int, rounds: int) -> FloatArray:
    """Draw trials that are slow or fast by chance, with little further noise."""
    size = strategies, rounds
    return 0.02 * (generator.choice([-1.0, 1.0], size) + 0.05 * generator.standard_normal(size))


def _with_other_work(generator: np.random.Generator, strategies: int, rounds: int) -> FloatArray:
    """Draw trials of which a fifth shares the machine with other work and takes longer, sometimes much longer."""
    size = strategies, rounds
    longer = (generator.random(size) < 0.2) * generator.exponential(3.0, size)
    return 0.02 * (0.1 * generator.standard_normal(size) + longer)


def _unlike(generator: np.random.Generator, strategies: int, rounds: int) -> FloatArray:
    """Draw strategies with different noise, half of them different by a factor of more than 1.6."""
    spread = np.exp(0.7 * generator.standard_normal((strategies, 1)))
    return 0.02 * spread * generator.standard_normal((strategies, rounds))


NOISES: dict[str, Draw] = {
    "normal": lambda generator, *size: 0.02 * generator.standard_normal(size),
    "heavy tails (t3)": lambda generator, *size: 0.02 * generator.standard_t(3, size) / math.sqrt(3),
    "disturbed": _with_other_work,
    "unlike strategies": _unlike,
    "bimodal": _bimodal,
}


def residuals_of(folders: Sequence[Path]) -> list[FloatArray]:
    """Return the residuals of log medians in finals of at least `ROUNDS` rounds, (strategies, ROUNDS), per search."""
    turns: dict[tuple[str, str, str], dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for folder in folders:
        for record in RecordStore(folder).read():
            if record.purpose == "remeasure" and record.outcome == "ok" and not record.label.startswith("reverted"):
                assert record.median_seconds is not None, "a turn that is ok has steps"
                search = str(folder), record.run, record.cluster.digest
                turns[search][record.strategy.digest].append((record.started_at, math.log(record.median_seconds)))
    residuals = []
    for strategies in turns.values():
        rows = [[log for _, log in sorted(timed)[:ROUNDS]] for timed in strategies.values() if len(timed) >= ROUNDS]
        if len(rows) > 1:
            logs = np.array(rows)
            residuals.append((logs - logs.mean(axis=1, keepdims=True)) * math.sqrt(ROUNDS / (ROUNDS - 1)))
    return residuals


def kept_noise(residuals: Sequence[FloatArray]) -> Draw:
    def draw(generator: np.random.Generator, strategies: int, rounds: int) -> FloatArray:
        fitting = [rows for rows in residuals if len(rows) >= strategies]
        chosen = fitting[generator.integers(len(fitting))]
        order = np.concatenate([generator.permutation(ROUNDS) for _ in range(math.ceil(rounds / ROUNDS))])[:rounds]
        logs = chosen[np.ix_(generator.permutation(len(chosen))[:strategies], order)]
        return np.asarray(logs * generator.choice([-1.0, 1.0], rounds))

    return draw


def slow_baseline(logs: FloatArray, effect: float) -> FloatArray:
    """Return the logs with the baseline, the last row, slower by `effect` standard deviations, and other rows by
    less."""
    return logs + effect * float(np.std(logs)) * np.array([[0.0], [0.2], [0.5], [1.0]])


def before(logs: FloatArray) -> tuple[bool, int]:
    """Return whether the estimator until issue 53 proves a gain, and after how many rounds."""
    *candidates, baseline = logs
    best = int(np.argmin([np.median(logs[:ROUNDS]) for logs in candidates]))
    first, second = np.split(baseline - candidates[best], [ROUNDS])
    if _students(first, ERROR / 2 / len(candidates)) > 0:
        return True, ROUNDS
    return (False, ROUNDS) if first.mean() <= 0 else (_students(second, ERROR / 2) > 0, MOST)


def _students(logs: FloatArray, error: float) -> float:
    return float(logs.mean() - student.ppf(1 - error / 2, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs)))


def now(logs: FloatArray, most: int = MOST) -> tuple[bool, int]:
    """Return whether looks that end after `most` rounds prove a gain, and after how many rounds."""
    *candidates, baseline = logs
    looks, best = Looks(ROUNDS), None
    for done in range(1, most + 1):
        error = looks.error(done, is_last=done == most)
        if error is None:
            continue
        ratios = [(baseline - candidate)[:done] for candidate in candidates]
        best = int(np.argmax([speedup_of(logs) for logs in ratios])) if best is None or done <= ROUNDS else best
        rows = logs if done <= ROUNDS else np.array([candidates[best], baseline])
        interval = interval_of(ratios[best], error / len(candidates), pool_noise(np.exp(rows[:, :done])))
        if interval is not None and interval[0] > 1:
            return True, done
        if done >= ROUNDS and speedup_of(ratios[best]) <= 1:
            return False, done
    return False, most


cut_at_6, cut_at_4 = partial(now, most=6), partial(now, most=4)


def coverage(drawn: Sequence[FloatArray]) -> float:
    """Return the share of drawn pairs of six rounds whose 95 % interval contains 1, the true ratio."""
    intervals = [interval_of((logs[-1] - logs[0])[:ROUNDS]) for logs in drawn]
    return sum(ends is not None and ends[0] <= 1 <= ends[1] for ends in intervals) / len(intervals)


def in_words(way: Callable[[FloatArray], tuple[bool, int]], drawn: Sequence[FloatArray]) -> str:
    proven, rounds = np.array([way(logs) for logs in drawn], np.float64).mean(axis=0)
    return f"{proven:.3f} ({rounds:.1f})"


if __name__ == "__main__":
    main()
