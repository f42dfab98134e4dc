"""Training examples from more records than fit into memory: encoded block by block, inputs on disk, figures in memory.

Notation: n records. `FIGURES` lists the values of a record kept in memory, about a hundred bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from autosync.cost.spec_cache import forget
from autosync.simulator.encoding import POOLED_INPUTS
from autosync.simulator.examples import Examples, Targets, line_of, standard_error
from autosync.simulator.fit_workers import FitWorkers
from autosync.simulator.stored import ELSEWHERE, StoredInputs
from autosync.simulator.view import View
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.stats.drift import drifts_of, members_of, occasions_among

STREAMING = "linear"
"""The network whose records can be streamed, because it reads only pooled inputs and is trained in batches."""

INPUTS = "inputs"
FIGURES = {
    "identity": "S16",
    "line": "S16",
    "strategy": "S16",
    "kind": "S16",
    "family": "i4",
    "cell": "i4",
    "judges": "?",
    "run": "i8",
    "started_at": "f8",
    "total_seconds": "f8",
    "base": "f8",
    "measured": "f8",
    "error": "f8",
}
"""The values kept of a record, with their types. A family is a model on a cluster as it was measured. Cells are
numbered in the order of training. `judges` marks records that only decide when to stop.
"""

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class TrainingRecords:
    """Examples of training and validation records."""

    examples: Examples
    """The training records' examples, then the validation records'."""
    count: int
    """The number of training records."""
    families: Mapping[str, int]
    """The number of training records by family key."""
    digest: str
    """The digest of the training records."""
    kinds: tuple[str, ...]
    """The kinds of the training records' times."""


class Stream(Protocol):
    """Records that arrive in blocks."""

    @property
    def for_base(self) -> Sequence[RuntimeRecord]:
        """The records that the base is fitted to: the base's maximum, evenly spaced among all training records."""
        ...

    def training_records(self, view: View) -> TrainingRecords: ...


@dataclass(frozen=True, eq=False)
class RecordBlock:
    """A block of records."""

    records: Sequence[RuntimeRecord]
    identities: Sequence[bytes]
    """The identity of each record."""
    families: Sequence[int]
    """The number of each record's family."""
    cells: Sequence[int]
    """The number of each record's cell."""
    judges: Sequence[bool]
    """Whether each record is for validation only."""


def encode(
    block: RecordBlock, families: Sequence[tuple[ModelSpec, ClusterSpec]], view: View
) -> dict[str, npt.NDArray[Any]]:
    """Return `FIGURES` of the block's records, and their pooled inputs, float64 (n, inputs)."""
    records, count = block.records, len(block.records)
    base, inputs = np.empty(count), np.empty((count, len(POOLED_INPUTS)))
    numbers = np.array(block.families, dtype=np.int32)
    for number in np.unique(numbers).tolist():
        places = np.flatnonzero(numbers == number)
        (model, cluster), first = families[number], dict[str, Strategy]()
        for place in places.tolist():
            first.setdefault(records[place].strategy.digest, records[place].strategy)
        number_of = {digest: at for at, digest in enumerate(first)}
        indices = [number_of[records[place].strategy.digest] for place in places.tolist()]
        encoded, predicted = view.of(model, cluster, list(first.values()))
        forget()  # strategies are too many to cache
        base[places], inputs[places] = predicted[indices], encoded.pooled.numpy()[indices]
    figures: dict[str, Sequence[Any]] = {
        "identity": block.identities,
        "line": [short(line_of(record)) for record in records],
        "strategy": [record.strategy.digest.encode() for record in records],
        "kind": [record.kind.encode() for record in records],
        "family": block.families,
        "cell": block.cells,
        "judges": block.judges,
        "run": [int.from_bytes(short(record.run)[:8], "big", signed=True) for record in records],
        "started_at": [record.started_at for record in records],
        "total_seconds": [record.total_seconds for record in records],
        "base": base.tolist(),
        "measured": [np.log(record.median_seconds or np.nan) for record in records],
        "error": [standard_error(record.step_seconds) for record in records],
    }
    return {name: np.array(figures[name], dtype=kind) for name, kind in FIGURES.items()} | {INPUTS: inputs}


def short(text: str) -> bytes:
    """Return a digest of `text`: 16 bytes that do not end in a zero, because numpy would strip that."""
    return hashlib.blake2b(text.encode(), digest_size=15).digest() + b"."


@dataclass(frozen=True, eq=False)
class EncodedShard:
    """The encoded records of one fit worker: figures by name, (n,) each, and inputs, row by row in `file`."""

    figures: Columns
    file: Path

    @classmethod
    def write(cls, blocks: Iterable[Columns], file: Path) -> EncodedShard:
        """Return the shard of `blocks` from `encode`, with their inputs written to `file`."""
        kept: dict[str, list[npt.NDArray[Any]]] = {name: [np.zeros(0, dtype=kind)] for name, kind in FIGURES.items()}
        with file.open("wb") as target:
            for block in blocks:
                target.write(np.ascontiguousarray(block[INPUTS], dtype=np.float64).tobytes())
                for name in kept:
                    kept[name].append(block[name])
        return cls({name: np.concatenate(parts) for name, parts in kept.items()}, file)


def assemble(shard: EncodedShard, family_keys: Sequence[str], workers: FitWorkers) -> TrainingRecords:
    """Return the examples of all workers' shards, equal to `examples_of` on the records ordered by cell and time.

    A duplicate record counts once.
    """
    shards = workers.all_gather(dict(shard.figures))
    whole = {name: np.concatenate([shard[name] for shard in shards]) for name in FIGURES}
    lengths = [len(shard["run"]) for shard in shards]
    begins = np.cumsum([0, *lengths])
    rows = np.full(begins[-1], ELSEWHERE, dtype=np.int64)
    rows[begins[workers.rank] : begins[workers.rank + 1]] = np.arange(lengths[workers.rank])
    _, once = np.unique(whole["identity"], return_index=True)
    order = once[np.lexsort([whole[name][once] for name in ("strategy", "started_at", "cell", "judges")])]
    figures = {name: values[order] for name, values in whole.items()}
    count = int((~figures["judges"]).sum())
    inputs = StoredInputs(shard.file, len(POOLED_INPUTS), rows[order], workers)
    numbers, counts = np.unique(figures["family"][:count], return_counts=True)
    families: dict[str, int] = {}
    for number, count_of_family in zip(numbers.tolist(), counts.tolist(), strict=True):
        families[family_keys[number]] = families.get(family_keys[number], 0) + count_of_family
    lines = b"".join(np.sort(figures["line"][:count]).tolist())
    kinds = tuple(kind.decode() for kind in np.unique(figures["kind"][:count]).tolist())
    digest = hashlib.sha256(lines).hexdigest()[:16]
    return TrainingRecords(Examples(inputs, _targets(figures)), count, families, digest, kinds)


def _targets(figures: Columns) -> Targets:
    families = _number_values(figures["family"])
    runs = _number_values(_number_pairs(figures["cell"], _number_values(figures["run"])))
    occasions = occasions_among(runs, figures["started_at"], figures["total_seconds"])
    weights, measured, base = np.ones(len(families)), figures["measured"].copy(), figures["base"]
    for places in members_of(families):
        measured[places] -= drifts_of(measured[places] - base[places], occasions[places], weights[places])
    strategies = _number_values(_number_pairs(families, _number_values(figures["strategy"])), families)
    arrays = (base, measured, figures["error"], occasions, strategies, weights)
    return Targets(*map(torch.from_numpy, arrays))


def _number_pairs(first: npt.NDArray[Any], second: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a number for each pair."""
    return np.asarray(first.astype(np.int64) * (int(second.max(initial=0)) + 1) + second)


def _number_values(values: npt.NDArray[Any], groups: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64]:
    """Number the values from 0 in order of their first occurrence; with `groups`, group by group."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first) if groups is None else np.lexsort((first, groups[first]))
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first))
    return rank[inverse]
