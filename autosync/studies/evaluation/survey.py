"""Records that are too many for memory: what there is of each cell, and a sample that is judged by.

A pass over a few columns, streamed by Ray Data, tells which records there are. Of each cell the strategies with the
least digests are the sample: a digest has nothing to do with what a strategy takes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.dataset import SPLITS, Rows, records_with_ids, split_of, stored_bytes, streamed
from autosync.spec import RuntimeRecord
from autosync.spec.address import Place
from autosync.spec.kept import kind_of

STREAMED_BYTES = 2**24
"""Bytes of records' files over which they are streamed: of about fifty thousand records."""

MOST_STRATEGIES, MOST_TRIALS = 500, 8
"""The most strategies of a cell, and the most trials of each, the earliest, that a sample has."""

TIMED = ("ok", "stopped")
COLUMNS = (
    "record_id",
    "strategy_digest",
    "model_digest",
    "cluster_digest",
    "cluster_json",
    "outcome",
    "median_seconds",
    "started_at",
    "time",
    "numbers",
)

Arrays = Mapping[str, npt.NDArray[Any]]


def cell_of(model_digest: str, cluster_digest: str) -> str:
    """The name of what records of one model and one cluster have in common."""
    return f"{model_digest}/{cluster_digest}"


def family_of(model_digest: str, cluster_json: str) -> str:
    """The name of what records of one model and of one cluster as it was measured have in common."""
    return f"{model_digest}/{hashlib.sha256(cluster_json.encode()).hexdigest()}"


@final
@dataclass(frozen=True, eq=False)
class Survey:
    """What is in `folder`. `figures` (n,) are of its timed records: `record` and `strategy` by identity, `kind`,
    `cell`, `family` and `part` by number, and `started_at`. Cells and families are by name.
    """

    folder: Place
    figures: Arrays
    kinds: tuple[str, ...]
    cells: tuple[str, ...]
    families: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.figures["record"])

    def of_kind(self, kind: str) -> Survey:
        return self.at(self.figures["kind"] == self.kinds.index(kind))

    def at(self, chosen: npt.NDArray[Any]) -> Survey:
        """The survey of some of the records."""
        figures = {name: each[chosen] for name, each in self.figures.items()}
        return Survey(self.folder, figures, self.kinds, self.cells, self.families)

    def sample(self) -> Survey:
        """At most `MOST_STRATEGIES` strategies of each cell, and `MOST_TRIALS` trials of each."""
        figures = self.figures
        order = np.lexsort((figures["started_at"], figures["strategy"], figures["cell"]))
        cell, strategy = figures["cell"][order], figures["strategy"][order]
        begins_cell = np.concatenate([[True], cell[1:] != cell[:-1]])
        begins = begins_cell | np.concatenate([[True], strategy[1:] != strategy[:-1]])
        number = np.cumsum(begins) - 1
        rank = number - number[np.flatnonzero(begins_cell)][np.cumsum(begins_cell) - 1]
        trial = np.arange(len(order)) - np.flatnonzero(begins)[number]
        return self.at(np.sort(order[(rank < MOST_STRATEGIES) & (trial < MOST_TRIALS)]))

    def records(self) -> list[RuntimeRecord]:
        """All of them, in the survey's order: for surveys that are small."""
        identities = [each.decode() for each in self.figures["record"].tolist()]
        found = dict(zip(sorted(identities), records_with_ids(self.folder, identities), strict=True))
        return [found[each] for each in identities]


def surveyed(folder: Place) -> Survey:
    """What there is in `folder`. Raises `DatasetError`."""
    kinds: dict[str, int] = {}
    cells: dict[str, int] = {}
    families: dict[str, int] = {}
    blocks: list[Arrays] = []
    for block in streamed(folder, _looked_at, COLUMNS):
        numbers = {
            name: np.array([known.setdefault(each, len(known)) for each in block[f"{name}_names"].tolist()])
            for name, known in (("kind", kinds), ("cell", cells), ("family", families))
        }
        figures = {name: numbers[name][block[name]].astype(np.int32) for name in numbers if len(block[name])}
        if figures:
            blocks.append({name: block[name] for name in ("record", "strategy", "part", "started_at")} | figures)
    whole = {name: np.concatenate([each[name] for each in blocks]) for name in (blocks[0] if blocks else ())}
    if whole:
        _, once = np.unique(whole["record"], return_index=True)
        whole = {name: each[np.sort(once)] for name, each in whole.items()}
    return Survey(folder, whole or {"record": np.zeros(0, "S32")}, tuple(kinds), tuple(cells), tuple(families))


def is_large(folder: Place) -> bool:
    return stored_bytes(folder) > STREAMED_BYTES


@contextmanager
def ray_here(workers: int | None = None) -> Iterator[None]:
    """Ray in the block: the one there is, or one that is begun for it, with room for so many workers."""
    import ray

    from trials.workers.local_ray import RayStart, start_ray

    if ray.is_initialized():
        yield
        return
    start_ray(RayStart(None, workers, dashboard=False))
    try:
        yield
    finally:
        ray.shutdown()


def _looked_at(rows: Rows) -> Arrays:
    """The figures of a block, with numbers of its own for what is named in it."""
    values = [rows.values(name) for name in COLUMNS]
    found: list[tuple[Any, ...]] = []
    parts: dict[str, int] = {}
    names: dict[str, dict[Any, int]] = {"kind": {}, "cell": {}, "family": {}}
    for identity, strategy, model, cluster, json, outcome, median, started, time, numbers in zip(*values, strict=True):
        if outcome not in TIMED or median is None:
            continue
        if strategy not in parts:
            parts[strategy] = SPLITS.index(split_of(strategy))
        keys = {"kind": kind_of(time, numbers), "cell": (model, cluster), "family": (model, json)}
        own = [names[name].setdefault(key, len(names[name])) for name, key in keys.items()]
        found.append((identity.encode(), strategy.encode(), parts[strategy], started, *own))
    columns: Sequence[Sequence[Any]] = list(zip(*found, strict=True)) or [()] * 7
    figures = dict(zip(("record", "strategy", "part", "started_at", *names), columns, strict=True))
    types = dict(zip(figures, ("S32", "S16", "i1", "f8", "i4", "i4", "i4"), strict=True))
    known = {
        "kind": list(names["kind"]),
        "cell": [cell_of(*each) for each in names["cell"]],
        "family": [family_of(*each) for each in names["family"]],
    }
    return {name: np.array(figures[name], dtype=types[name]) for name in figures} | {
        f"{name}_names": np.array(each, dtype=np.str_) for name, each in known.items()
    }
