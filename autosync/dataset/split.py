"""Records split into training, validation and test, by strategy, the same everywhere and for ever."""

import hashlib
from collections.abc import Iterable

from autosync.spec import RuntimeRecord

SPLITS = ("train", "validation", "test")
TRAIN_PERCENT = 60
VALIDATION_PERCENT = 20


def split_of(strategy_digest: str) -> str:
    """The part a strategy belongs to: 60 % train, 20 % validation, 20 % test, by SHA-256 of its digest.

    All records of one strategy, re-measured ones and those of other clusters too, fall in one part, so that no
    simulator is tested on a strategy it has seen.
    """
    percent = int.from_bytes(hashlib.sha256(strategy_digest.encode()).digest()[:8], "big") % 100
    if percent < TRAIN_PERCENT:
        return "train"
    return "validation" if percent < TRAIN_PERCENT + VALIDATION_PERCENT else "test"


def split_records(records: Iterable[RuntimeRecord]) -> dict[str, list[RuntimeRecord]]:
    """The records of each part of `SPLITS`, in the order given."""
    parts: dict[str, list[RuntimeRecord]] = {name: [] for name in SPLITS}
    for record in records:
        parts[split_of(record.strategy.digest)].append(record)
    return parts
