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
from autosync.stats.accuracy import Floats, differences, share_in_order
from autosync.stats.estimate import RESAMPLES, estimate_of
from autosync.tune.progress import FEWEST_RANKED, Standing

ROUND, NEAR = 4, 0.03


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path)
    searches: dict[str, list[RuntimeRecord]] = defaultdict(list)
    for record in RecordStore(parser.parse_args().records).read():
        if record.purpose == "search" and record.run.startswith("guided-"):
            searches[record.run].append(record)
    ordered = [sorted(each, key=lambda record: record.started_at) for each in searches.values()]
    standings = [Standing.of(each) for each in ordered]
    whole = [each.rank_agreement for each in standings if each.ranked >= FEWEST_RANKED]
    print(
        f"Whole searches: {min(whole):.2f} to {max(whole):.2f}, median {statistics.median(whole):.2f}, of {len(whole)} "
        f"searches with {FEWEST_RANKED} strategies or more."
    )
    first = [_picked(each[:ROUND]) for each in ordered]
    for what, picks in (("First round", first), ("All later", [_picked(each[ROUND:]) for each in ordered])):
        counts = np.array([_pairs(*each) for each in picks])
        drawn = np.random.default_rng(0).integers(0, len(counts), (RESAMPLES, len(counts)))
        right, pairs = np.vstack([counts.sum(axis=0), counts[drawn].sum(axis=1)]).T
        share = estimate_of(right / pairs)
        print(f"{what}: {right[0]:g} of {pairs[0]:g} pairs, {share.value:.2f} [{share.low:.2f}, {share.high:.2f}].")
    some = [(predicted, took) for predicted, took in first if len(took)]
    ratios = [float(np.median(took / predicted)) for predicted, took in some]
    spans = [statistics.median(float(np.ptp(np.log(each[what]))) for each in some) for what in (0, 1)]
    print(f"Times of a first round are {np.expm1(spans[1]):.1%} apart, predictions {np.expm1(spans[0]):.1%} (medians).")
    print(f"The first round takes {min(ratios):.2f} to {max(ratios):.2f} times as long as predicted, by search.")


def _picked(records: Sequence[RuntimeRecord]) -> tuple[Floats, Floats]:
    """Predicted and measured step seconds, (n,) each, of what was picked and ran to its end."""
    ended = [each for each in records if each.label == "guided" and each.outcome == "ok"]
    return np.array([(each.predicted_seconds, each.median_seconds) for each in ended], np.float64).reshape(-1, 2).T


def _pairs(predicted: Floats, took: Floats) -> tuple[float, float]:
    """Of pairs that are not near each other, how many are in their order, a tie counting half; and of how many."""
    apart = differences(np.log(took))
    order = np.sign(apart) * (np.abs(apart) > np.log1p(NEAR))
    pairs = float(np.abs(order).sum()) / 2
    return float(share_in_order(predicted, order, np.ones(len(took)))) * pairs if pairs else 0.0, pairs


if __name__ == "__main__":
    main()
