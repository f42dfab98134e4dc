"""False positives, coverage and power of verdicts by simulation: `python -m tests.by_hand.bench_judging [RECORDS ...]`.

Finals of `--candidates` strategies and one baseline are drawn many times. Rows of the first table are kinds of noise of
a trial's log median, all without any true difference, so every proven gain is false. *Kept* noise consists of the
residuals of finals in folders of records (the shipped ones by default): whole rounds of a search's finals are drawn
without replacement, with a sign for each round. `--effects` of the second table are true gains, in standard
deviations of a trial.

- *before*: two looks by Student's interval, of 6 rounds by all and of 12 new ones by the best two, as until issue 53.
  With one step in each round its bootstrap is Student's standard error.
- *now*: looks as in `autosync.search.verdict.looks`; *cut* ends after as many rounds as a time budget allows.

Numbers in brackets are mean rounds. At 4,000 draws a share of 2.5 % is known to 0.5 % (95 %).
"""

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from autosync.dataset import RecordStore
from autosync.search.verdict.looks import Looks
from autosync.stats.paired import ERROR, interval_of, pooled_noise, speedup_of

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int, int], Floats]
"""Log medians, (strategies, rounds), from a generator and both counts."""

SHIPPED = [Path("runtimes/bench") / name / "records" for name in ("rivals", "paced", "moved")]
ROUNDS, MOST = 6, 18


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, nargs="*", default=SHIPPED)
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--candidates", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--effects", type=float, nargs="+", default=[0.5, 1.0, 1.5, 2.0, 4.0, 10.0])
    asked = parser.parse_args()
    kinds = NOISES | {"kept finals": kept_noise(residuals_of(asked.records))}
    generator = np.random.default_rng(0)
    print("False gains | candidates | before | now | cut at 6 | cut at 4 | intervals that hold the truth")
    for kind, draw in kinds.items():
        for candidates in asked.candidates:
            drawn = [draw(generator, candidates + 1, MOST) for _ in range(asked.draws)]
            shares = [in_words(way, drawn) for way in (before, now, cut_at_6, cut_at_4)]
            print(" | ".join([kind, str(candidates), *shares, f"{covered(drawn):.3f}"]), flush=True)
    print("\nPower | effect | before | now | cut at 6")
    for kind, draw in kinds.items():
        for effect in asked.effects:
            drawn = [slowed(draw(generator, 4, MOST), effect) for _ in range(asked.draws // 4)]
            shares = [in_words(way, drawn) for way in (before, now, cut_at_6)]
            print(" | ".join([kind, f"{effect:g} sd", *shares]), flush=True)


def _bimodal(generator: np.random.Generator, strategies: int, rounds: int) -> Floats:
    """Trials that are slow or fast by chance, with little further noise."""
    size = strategies, rounds
    return 0.02 * (generator.choice([-1.0, 1.0], size) + 0.05 * generator.standard_normal(size))


def _disturbed(generator: np.random.Generator, strategies: int, rounds: int) -> Floats:
    """A fifth of all trials shares the machine with other work and takes longer, some of them much longer."""
    size = strategies, rounds
    longer = (generator.random(size) < 0.2) * generator.exponential(3.0, size)
    return 0.02 * (0.1 * generator.standard_normal(size) + longer)


def _unlike(generator: np.random.Generator, strategies: int, rounds: int) -> Floats:
    """Strategies that differ in how noisy they are, half of them by more than 1.6 times."""
    spread = np.exp(0.7 * generator.standard_normal((strategies, 1)))
    return 0.02 * spread * generator.standard_normal((strategies, rounds))


NOISES: dict[str, Draw] = {
    "normal": lambda generator, *size: 0.02 * generator.standard_normal(size),
    "heavy tails (t3)": lambda generator, *size: 0.02 * generator.standard_t(3, size) / math.sqrt(3),
    "disturbed": _disturbed,
    "unlike strategies": _unlike,
    "bimodal": _bimodal,
}


def residuals_of(folders: Sequence[Path]) -> list[Floats]:
    """Residuals of log medians in finals of `ROUNDS` rounds or more, (strategies, ROUNDS), of each search."""
    turns: dict[tuple[str, str, str], dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for folder in folders:
        for record in RecordStore(folder).read():
            if record.purpose == "remeasure" and record.outcome == "ok" and not record.label.startswith("reverted"):
                assert record.median_seconds is not None, "a turn that is ok has steps"
                search = str(folder), record.run, record.cluster.digest
                turns[search][record.strategy.digest].append((record.started_at, math.log(record.median_seconds)))
    found = []
    for strategies in turns.values():
        rows = [[log for _, log in sorted(timed)[:ROUNDS]] for timed in strategies.values() if len(timed) >= ROUNDS]
        if len(rows) > 1:
            logs = np.array(rows)
            found.append((logs - logs.mean(axis=1, keepdims=True)) * math.sqrt(ROUNDS / (ROUNDS - 1)))
    return found


def kept_noise(residuals: Sequence[Floats]) -> Draw:
    def draw(generator: np.random.Generator, strategies: int, rounds: int) -> Floats:
        fitting = [rows for rows in residuals if len(rows) >= strategies]
        chosen = fitting[generator.integers(len(fitting))]
        order = np.concatenate([generator.permutation(ROUNDS) for _ in range(math.ceil(rounds / ROUNDS))])[:rounds]
        logs = chosen[np.ix_(generator.permutation(len(chosen))[:strategies], order)]
        return np.asarray(logs * generator.choice([-1.0, 1.0], rounds))

    return draw


def slowed(logs: Floats, effect: float) -> Floats:
    """The drawn logs with the baseline, which comes last, slower by `effect` standard deviations; others by less."""
    return logs + effect * float(np.std(logs)) * np.array([[0.0], [0.2], [0.5], [1.0]])


def before(logs: Floats) -> tuple[bool, int]:
    """Whether a gain was proven, and after how many rounds, by the estimator until issue 53."""
    *candidates, baseline = logs
    best = int(np.argmin([np.median(logs[:ROUNDS]) for logs in candidates]))
    first, second = np.split(baseline - candidates[best], [ROUNDS])
    if _students(first, ERROR / 2 / len(candidates)) > 0:
        return True, ROUNDS
    return (False, ROUNDS) if first.mean() <= 0 else (_students(second, ERROR / 2) > 0, MOST)


def _students(logs: Floats, error: float) -> float:
    return float(logs.mean() - student.ppf(1 - error / 2, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs)))


def now(logs: Floats, most: int = MOST) -> tuple[bool, int]:
    """Whether a gain is proven, and after how many rounds, by looks that end after `most` rounds."""
    *candidates, baseline = logs
    looks, best = Looks(ROUNDS), None
    for done in range(1, most + 1):
        error = looks.error(done, is_last=done == most)
        if error is None:
            continue
        ratios = [(baseline - candidate)[:done] for candidate in candidates]
        best = int(np.argmax([speedup_of(logs) for logs in ratios])) if best is None or done <= ROUNDS else best
        rows = logs if done <= ROUNDS else np.array([candidates[best], baseline])
        interval = interval_of(ratios[best], error / len(candidates), pooled_noise(np.exp(rows[:, :done])))
        if interval is not None and interval[0] > 1:
            return True, done
        if done >= ROUNDS and speedup_of(ratios[best]) <= 1:
            return False, done
    return False, most


cut_at_6, cut_at_4 = partial(now, most=6), partial(now, most=4)


def covered(drawn: Sequence[Floats]) -> float:
    """The share of drawn pairs of six rounds whose 95 % interval holds 1, the true ratio."""
    intervals = [interval_of((logs[-1] - logs[0])[:ROUNDS]) for logs in drawn]
    return sum(ends is not None and ends[0] <= 1 <= ends[1] for ends in intervals) / len(intervals)


def in_words(way: Callable[[Floats], tuple[bool, int]], drawn: Sequence[Floats]) -> str:
    proven, rounds = np.array([way(logs) for logs in drawn], np.float64).mean(axis=0)
    return f"{proven:.3f} ({rounds:.1f})"


if __name__ == "__main__":
    main()
