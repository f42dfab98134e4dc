"""The permanent split of records into training, validation and test, by strategy."""

import hashlib
from collections.abc import Iterable

from autosync.spec import RuntimeRecord

SPLITS = ("train", "validation", "test")
TRAIN_PERCENT = 60
VALIDATION_PERCENT = 20


def split_of(strategy_digest: str) -> str:
    """Return the part that a strategy belongs to: 60 % train, 20 % validation, 20 % test, by SHA-256 of its digest.

    All records of one strategy are in the same part, including re-measurements and other clusters, so that no simulator
    is tested on a strategy from its training.
    """
    percent = int.from_bytes(hashlib.sha256(strategy_digest.encode()).digest()[:8], "big") % 100
    if percent < TRAIN_PERCENT:
        return "train"
    return "validation" if percent < TRAIN_PERCENT + VALIDATION_PERCENT else "test"


def split_records(records: Iterable[RuntimeRecord]) -> dict[str, list[RuntimeRecord]]:
    """Return the records of each part of `SPLITS`, in the order passed."""
    parts: dict[str, list[RuntimeRecord]] = {name: [] for name in SPLITS}
    for record in records:
        parts[split_of(record.strategy.digest)].append(record)
    return parts
