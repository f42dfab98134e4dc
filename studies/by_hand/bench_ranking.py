"""The simulator's ranking accuracy on strategies of live searches: `python -m studies.by_hand.bench_ranking RECORDS`.

RECORDS is a folder of records such as `runtimes/bench/paced/records`. The script takes the proposed strategies of each
`guided` search that ran to their end, in order. The share for a whole search is the figure that the search prints. The
predictions of a first round come from one state of the simulator. Rounds leave out pairs whose times differ by less
than 3 %, and strategies sampled for exploration, which are slow and easy to rank. Intervals are bootstrapped over
searches.
"""

import argparse
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autosync.dataset import RecordStore
from autosync.numeric import FloatArray
from autosync.spec import RuntimeRecord
from autosync.stats.accuracy import differences, share_in_order
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
    ordered = [sorted(records, key=lambda record: record.started_at) for records in searches.values()]
    standings = [Standing.of(records) for records in ordered]
    whole = [standing.rank_agreement for standing in standings if standing.ranked >= FEWEST_RANKED]
    print(
        f"Whole searches: {min(whole):.2f} to {max(whole):.2f}, median {statistics.median(whole):.2f}, of {len(whole)} "
        f"searches with {FEWEST_RANKED} strategies or more."
    )
    first = [_guided_times(records[:ROUND]) for records in ordered]
    for part, picks in (("First round", first), ("All later", [_guided_times(records[ROUND:]) for records in ordered])):
        counts = np.array([_pairs(*times) for times in picks])
        drawn = np.random.default_rng(0).integers(0, len(counts), (RESAMPLES, len(counts)))
        right, pairs = np.vstack([counts.sum(axis=0), counts[drawn].sum(axis=1)]).T
        share = estimate_of(right / pairs)
        print(f"{part}: {right[0]:g} of {pairs[0]:g} pairs, {share.value:.2f} [{share.low:.2f}, {share.high:.2f}].")
    some = [(predicted, took) for predicted, took in first if len(took)]
    ratios = [float(np.median(took / predicted)) for predicted, took in some]
    spans = [statistics.median(float(np.ptp(np.log(times[column]))) for times in some) for column in (0, 1)]
    print(f"Times of a first round are {np.expm1(spans[1]):.1%} apart, predictions {np.expm1(spans[0]):.1%} (medians).")
    print(f"The first round takes {min(ratios):.2f} to {max(ratios):.2f} times as long as predicted, by search.")


def _guided_times(records: Sequence[RuntimeRecord]) -> tuple[FloatArray, FloatArray]:
    """Return the predicted and measured step seconds, (n,) each, of guided proposals that ran to their end."""
    ended = [record for record in records if record.label == "guided" and record.outcome == "ok"]
    return (
        np.array([(record.predicted_seconds, record.median_seconds) for record in ended], np.float64).reshape(-1, 2).T
    )


def _pairs(predicted: FloatArray, took: FloatArray) -> tuple[float, float]:
    """Count the pairs in the right order (a tie counts half), and all pairs whose times are not near each other."""
    apart = differences(np.log(took))
    order = np.sign(apart) * (np.abs(apart) > np.log1p(NEAR))
    pairs = float(np.abs(order).sum()) / 2
    return float(share_in_order(predicted, order, np.ones(len(took)))) * pairs if pairs else 0.0, pairs


if __name__ == "__main__":
    main()
