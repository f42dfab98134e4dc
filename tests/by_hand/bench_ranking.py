"""How well the simulator ranked what live searches timed: `python -m tests.by_hand.bench_ranking RECORDS`.

RECORDS is a folder of records such as `runtimes/bench/paced/records`. Of each search by `guided` it takes the
strategies that were proposed and ran to their end, in order. A whole search's share is what the search itself prints.
The first round is what one state of the simulator predicted. Left out of rounds are pairs that took times within 3 %,
and what was sampled to explore, which is slow and easy to rank. Intervals are bootstrapped over searches.
"""

import argparse
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autosync.dataset import RecordStore
from autosync.spec import RuntimeRecord
from autosync.stats.accuracy import pairwise_accuracy

ROUND, NEAR, FEWEST, RESAMPLES = 4, 0.03, 5, 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path)
    searches: dict[str, list[RuntimeRecord]] = defaultdict(list)
    for record in RecordStore(parser.parse_args().records).read():
        if record.purpose == "search" and record.run.startswith("guided-"):
            searches[record.run].append(record)
    ordered = [sorted(each, key=lambda record: record.started_at) for each in searches.values()]
    whole = [_share(timed) for each in ordered if len(timed := _timed(each)) >= FEWEST]
    print(
        f"Whole searches: {min(whole):.2f} to {max(whole):.2f}, median {statistics.median(whole):.2f}, of {len(whole)} "
        f"searches with {FEWEST} strategies or more."
    )
    first = [_picked(each[:ROUND]) for each in ordered]
    for what, picks in (("First round", first), ("All later", [_picked(each[ROUND:]) for each in ordered])):
        counts = np.array([_pairs(each) for each in picks])
        right, pairs = counts.sum(axis=0)
        again = counts[np.random.default_rng(0).integers(0, len(counts), (RESAMPLES, len(counts)))].sum(axis=1)
        low, high = np.quantile(again[:, 0] / again[:, 1], (0.025, 0.975))
        print(f"{what}: {right:g} of {pairs:g} pairs, {right / pairs:.2f} [{low:.2f}, {high:.2f}].")
    ratios = [
        statistics.median((each.median_seconds or 0.0) / (each.predicted_seconds or 1.0) for each in picks)
        for picks in first
        if picks
    ]
    spans = [
        statistics.median(max(each) / min(each) - 1 for picks in first if (each := list(of(picks))))
        for of in (_medians, _predictions)
    ]
    print(f"Times of a first round are {spans[0]:.1%} apart, predictions {spans[1]:.1%}, at the median.")
    print(f"The first round takes {min(ratios):.2f} to {max(ratios):.2f} times as long as predicted, by search.")


def _timed(records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    return [each for each in records if each.outcome == "ok" and each.predicted_seconds is not None]


def _picked(records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    return [each for each in _timed(records) if each.label == "guided"]


def _share(timed: Sequence[RuntimeRecord]) -> float:
    return pairwise_accuracy(_predictions(timed), _medians(timed))


def _pairs(timed: Sequence[RuntimeRecord]) -> tuple[float, int]:
    """Of pairs that are not near each other, how many are in their order, a tie counting half; and of how many."""
    took = np.log(_medians(timed))
    predicted = np.log(_predictions(timed))
    one, other = np.triu_indices(len(timed), 1)
    apart = np.abs(took[one] - took[other]) > np.log1p(NEAR)
    agree = np.sign(took[one] - took[other]) * np.sign(predicted[one] - predicted[other])
    return float(((agree[apart] + 1) / 2).sum()), int(apart.sum())


def _medians(timed: Sequence[RuntimeRecord]) -> list[float]:
    return [each.median_seconds or 0.0 for each in timed]


def _predictions(timed: Sequence[RuntimeRecord]) -> list[float]:
    return [each.predicted_seconds or 0.0 for each in timed]


if __name__ == "__main__":
    main()
