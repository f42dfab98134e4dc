"""A survey of records that are too many for memory: the records of each cell, and a sample for evaluation.

A pass over a few columns, streamed by Ray Data, lists the records. The sample has the strategies of each cell with the
least digests, because a digest is independent of the strategy's speed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.dataset import SPLITS, RowBlock, records_with_ids, split_of, stream_blocks, total_bytes
from autosync.spec import RuntimeRecord
from autosync.spec.address import Place
from autosync.spec.pace_report import kind_of

STREAMED_BYTES = 2**24
"""The size of records' files above which they are streamed: about fifty thousand records."""

MOST_STRATEGIES, MOST_TRIALS = 500, 8
"""The most strategies of a cell in a sample, and the most trials of each, the earliest."""

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
    "framework",
)

Arrays = Mapping[str, npt.NDArray[Any]]


def cell_of(model_digest: str, cluster_digest: str) -> str:
    """Return the common name of records of one model and one cluster."""
    return f"{model_digest}/{cluster_digest}"


def family_of(model_digest: str, cluster_json: str) -> str:
    """Return the common name of records of one model and one cluster with equal measurements."""
    return f"{model_digest}/{hashlib.sha256(cluster_json.encode()).hexdigest()}"


@final
@dataclass(frozen=True, eq=False)
class Survey:
    """A list of the timed records in `folder`."""

    folder: Place
    figures: Arrays
    """Columns (n,): `record` and `strategy` by identity; `kind`, `cell`, `family` and `part` by number;
    `started_at`.
    """
    kinds: tuple[str, ...]
    """The kinds' names, by number."""
    cells: tuple[str, ...]
    """The cells' names, by number."""
    families: tuple[str, ...]
    """The families' names, by number."""

    def __len__(self) -> int:
        return len(self.figures["record"])

    def of_kind(self, kind: str) -> Survey:
        return self.at(self.figures["kind"] == self.kinds.index(kind))

    def at(self, chosen: npt.NDArray[Any]) -> Survey:
        """Return the survey of the chosen records."""
        figures = {name: values[chosen] for name, values in self.figures.items()}
        return Survey(self.folder, figures, self.kinds, self.cells, self.families)

    def sample(self) -> Survey:
        """Return at most `MOST_STRATEGIES` strategies of each cell, and `MOST_TRIALS` trials of each strategy."""
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
        """Read all records, in the survey's order. Only for small surveys."""
        identities = [identity.decode() for identity in self.figures["record"].tolist()]
        records = dict(zip(sorted(identities), records_with_ids(self.folder, identities), strict=True))
        return [records[identity] for identity in identities]


def survey_records(folder: Place) -> Survey:
    """Return the survey of `folder`. Raises `DatasetError`."""
    kinds: dict[str, int] = {}
    cells: dict[str, int] = {}
    families: dict[str, int] = {}
    blocks: list[Arrays] = []
    for block in stream_blocks(folder, _index_block, COLUMNS):
        numbers = {
            name: np.array([known.setdefault(value, len(known)) for value in block[f"{name}_names"].tolist()])
            for name, known in (("kind", kinds), ("cell", cells), ("family", families))
        }
        figures = {name: numbers[name][block[name]].astype(np.int32) for name in numbers if len(block[name])}
        if figures:
            blocks.append({name: block[name] for name in ("record", "strategy", "part", "started_at")} | figures)
    whole = {name: np.concatenate([block[name] for block in blocks]) for name in (blocks[0] if blocks else ())}
    if whole:
        _, once = np.unique(whole["record"], return_index=True)
        whole = {name: values[np.sort(once)] for name, values in whole.items()}
    return Survey(folder, whole or {"record": np.zeros(0, "S32")}, tuple(kinds), tuple(cells), tuple(families))


def is_large(folder: Place) -> bool:
    return total_bytes(folder) > STREAMED_BYTES


@contextmanager
def ray_here(workers: int | None = None) -> Iterator[None]:
    """Provide Ray in the block: the running Ray, or a new one with room for `workers` workers."""
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


def _index_block(rows: RowBlock) -> Arrays:
    """Return the figures of a block, numbered within the block, and the names of these numbers."""
    values = [rows.values(name) for name in COLUMNS]
    rows_kept: list[tuple[Any, ...]] = []
    parts: dict[str, int] = {}
    names: dict[str, dict[Any, int]] = {"kind": {}, "cell": {}, "family": {}}
    for identity, strategy, model, cluster, json, outcome, median, started, *of_kind in zip(*values, strict=True):
        if outcome not in TIMED or median is None:
            continue
        if strategy not in parts:
            parts[strategy] = SPLITS.index(split_of(strategy))
        keys = {"kind": kind_of(*of_kind), "cell": (model, cluster), "family": (model, json)}
        numbers = [names[name].setdefault(key, len(names[name])) for name, key in keys.items()]
        rows_kept.append((identity.encode(), strategy.encode(), parts[strategy], started, *numbers))
    columns: Sequence[Sequence[Any]] = list(zip(*rows_kept, strict=True)) or [()] * 7
    figures = dict(zip(("record", "strategy", "part", "started_at", *names), columns, strict=True))
    types = dict(zip(figures, ("S32", "S16", "i1", "f8", "i4", "i4", "i4"), strict=True))
    known = {
        "kind": list(names["kind"]),
        "cell": [cell_of(*key) for key in names["cell"]],
        "family": [family_of(*key) for key in names["family"]],
    }
    return {name: np.array(figures[name], dtype=types[name]) for name in figures} | {
        f"{name}_names": np.array(values, dtype=np.str_) for name, values in known.items()
    }
