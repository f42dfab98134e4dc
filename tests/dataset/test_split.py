"""The split is by strategy, stable and 60/20/20."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from autosync.dataset import SPLITS, split_of, split_records
from autosync.spec import digest
from tests.dataset.examples import example_record


def test_the_split_never_changes():
    parts = [split_of(text) for text in ("0" * 16, "1" * 16, "2" * 16, "3" * 16, "8" * 16)]
    assert parts == ["train", "train", "train", "validation", "validation"]


def test_ten_thousand_strategies_split_60_20_20():
    counts = Counter(split_of(digest(index)) for index in range(10_000))
    # Standard deviations are 49, 40 and 40; the margin is over four of them.
    assert abs(counts["train"] - 6000) < 200
    assert abs(counts["validation"] - 2000) < 170
    assert set(counts) == set(SPLITS)


def test_every_record_of_a_strategy_falls_in_one_part_in_the_order_given():
    records = [example_record(index) for index in range(10)]
    records += [replace(record, run="again", seed=99) for record in records]
    parts = split_records(records)
    assert sum(map(len, parts.values())) == 20
    digests = [{record.strategy.digest for record in part} for part in parts.values()]
    assert not any(digests[i] & digests[j] for i in range(3) for j in range(i))
    for part in parts.values():
        assert part == [record for record in records if record in part]
