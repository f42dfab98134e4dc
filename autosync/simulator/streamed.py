"""Records that are too many for memory, as examples: encoded block by block, inputs to disk, figures put together.

Notation: n records. What is kept of each in memory is `FIGURES`, about a hundred bytes.
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

from autosync.cost.remembered import forget
from autosync.simulator.crew import Crew
from autosync.simulator.encoding import POOLED_INPUTS
from autosync.simulator.examples import Examples, Targets, line_of, standard_error
from autosync.simulator.stored import ELSEWHERE, StoredInputs
from autosync.simulator.view import View
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.stats.occasions import drifts_of, members_of, occasions_among

STREAMING = "linear"
"""The network that reads pooled inputs alone and is trained in batches: its records can be streamed."""

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
"""What is kept of a record, with its type. A family is a model on a cluster as it was measured; cells are in the order
in which they are taught; `judges` says that the record only says when to stop."""

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Taught:
    """Examples, of which the first `count` are taught and the others judge; how many there are of each family, by its
    key; and the identity and kinds of those that are taught."""

    both: Examples
    count: int
    families: Mapping[str, int]
    digest: str
    kinds: tuple[str, ...]


class Stream(Protocol):
    """Records that come in blocks."""

    @property
    def for_base(self) -> Sequence[RuntimeRecord]:
        """Those that the base is fitted to: as many as it takes, evenly spaced among all that are taught."""
        ...

    def taught(self, view: View) -> Taught: ...


@dataclass(frozen=True, eq=False)
class Block:
    """Some records, each with its identity, the numbers of its family and its cell, and whether it only judges."""

    records: Sequence[RuntimeRecord]
    identities: Sequence[bytes]
    families: Sequence[int]
    cells: Sequence[int]
    judges: Sequence[bool]


def encoded(block: Block, families: Sequence[tuple[ModelSpec, ClusterSpec]], view: View) -> dict[str, npt.NDArray[Any]]:
    """`FIGURES` of the block's records, and their pooled inputs, float64 (n, inputs)."""
    records, count = block.records, len(block.records)
    base, inputs = np.empty(count), np.empty((count, len(POOLED_INPUTS)))
    numbers = np.array(block.families, dtype=np.int32)
    for number in np.unique(numbers).tolist():
        places = np.flatnonzero(numbers == number)
        (model, cluster), first = families[number], dict[str, Strategy]()
        for place in places.tolist():
            first.setdefault(records[place].strategy.digest, records[place].strategy)
        number_of = {digest: at for at, digest in enumerate(first)}
        own = [number_of[records[place].strategy.digest] for place in places.tolist()]
        found, predicted = view.of(model, cluster, list(first.values()))
        forget()  # strategies are too many to keep anything of them
        base[places], inputs[places] = predicted[own], found.pooled.numpy()[own]
    figures: dict[str, Sequence[Any]] = {
        "identity": block.identities,
        "line": [short(line_of(each)) for each in records],
        "strategy": [each.strategy.digest.encode() for each in records],
        "kind": [each.kind.encode() for each in records],
        "family": block.families,
        "cell": block.cells,
        "judges": block.judges,
        "run": [int.from_bytes(short(each.run)[:8], "big", signed=True) for each in records],
        "started_at": [each.started_at for each in records],
        "total_seconds": [each.total_seconds for each in records],
        "base": base.tolist(),
        "measured": [np.log(each.median_seconds or np.nan) for each in records],
        "error": [standard_error(each.step_seconds) for each in records],
    }
    return {name: np.array(figures[name], dtype=kind) for name, kind in FIGURES.items()} | {INPUTS: inputs}


def short(text: str) -> bytes:
    """A digest of `text`, 16 bytes without a zero at the end, where numpy would lose it."""
    return hashlib.blake2b(text.encode(), digest_size=15).digest() + b"."


@dataclass(frozen=True, eq=False)
class Shard:
    """What a process of a crew has encoded: figures by their name, (n,) each, and inputs, row by row in `file`."""

    figures: Columns
    file: Path

    @classmethod
    def written(cls, blocks: Iterable[Columns], file: Path) -> Shard:
        """The shard of `blocks` as `encoded` gives them, their inputs written to `file`."""
        kept: dict[str, list[npt.NDArray[Any]]] = {name: [np.zeros(0, dtype=kind)] for name, kind in FIGURES.items()}
        with file.open("wb") as target:
            for block in blocks:
                target.write(np.ascontiguousarray(block[INPUTS], dtype=np.float64).tobytes())
                for name in kept:
                    kept[name].append(block[name])
        return cls({name: np.concatenate(parts) for name, parts in kept.items()}, file)


def assembled(shard: Shard, family_keys: Sequence[str], crew: Crew) -> Taught:
    """The examples of all shards of the crew, as `examples_of` makes them of the records in order: of cells, of time.

    A record that comes twice is taken once.
    """
    shards = crew.all_of(dict(shard.figures))
    whole = {name: np.concatenate([each[name] for each in shards]) for name in FIGURES}
    lengths = [len(each["run"]) for each in shards]
    begins = np.cumsum([0, *lengths])
    rows = np.full(begins[-1], ELSEWHERE, dtype=np.int64)
    rows[begins[crew.rank] : begins[crew.rank + 1]] = np.arange(lengths[crew.rank])
    _, once = np.unique(whole["identity"], return_index=True)
    order = once[np.lexsort([whole[name][once] for name in ("strategy", "started_at", "cell", "judges")])]
    figures = {name: each[order] for name, each in whole.items()}
    count = int((~figures["judges"]).sum())
    inputs = StoredInputs(shard.file, len(POOLED_INPUTS), rows[order], crew)
    numbers, counts = np.unique(figures["family"][:count], return_counts=True)
    families: dict[str, int] = {}
    for number, many in zip(numbers.tolist(), counts.tolist(), strict=True):
        families[family_keys[number]] = families.get(family_keys[number], 0) + many
    lines = b"".join(np.sort(figures["line"][:count]).tolist())
    kinds = tuple(each.decode() for each in np.unique(figures["kind"][:count]).tolist())
    digest = hashlib.sha256(lines).hexdigest()[:16]
    return Taught(Examples(inputs, _targets(figures)), count, families, digest, kinds)


def _targets(figures: Columns) -> Targets:
    families = _numbered(figures["family"])
    runs = _numbered(_paired(figures["cell"], _numbered(figures["run"])))
    occasions = occasions_among(runs, figures["started_at"], figures["total_seconds"])
    weights, measured, base = np.ones(len(families)), figures["measured"].copy(), figures["base"]
    for places in members_of(families):
        measured[places] -= drifts_of(measured[places] - base[places], occasions[places], weights[places])
    strategies = _numbered(_paired(families, _numbered(figures["strategy"])), families)
    arrays = (base, measured, figures["error"], occasions, strategies, weights)
    return Targets(*map(torch.from_numpy, arrays))


def _paired(one: npt.NDArray[Any], other: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """A number for each pair."""
    return np.asarray(one.astype(np.int64) * (int(other.max(initial=0)) + 1) + other)


def _numbered(values: npt.NDArray[Any], groups: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64]:
    """The values as numbers, from 0 in order of their first place, or, where there are `groups`, group by group."""
    _, first, own = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first) if groups is None else np.lexsort((first, groups[first]))
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first))
    return rank[own]
