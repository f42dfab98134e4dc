"""Streams the records of the training cells into a fit; Ray's tasks encode them where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.cost.replay.simulator import MOST_RECORDS
from autosync.dataset import SPLITS, RowBlock, split_of, stream_blocks
from autosync.pretraining.cells import MeasuredCell
from autosync.pretraining.survey import Survey, cell_of, family_of
from autosync.simulator.examples import family_key
from autosync.simulator.fit_workers import SINGLE_WORKER
from autosync.simulator.streamed import EncodedShard, RecordBlock, TrainingRecords, assemble, encode, short
from autosync.simulator.view import View
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord
from autosync.spec.pace_report import kind_of

TRAIN, VALIDATION = (SPLITS.index(part) for part in ("train", "validation"))


@final
@dataclass(frozen=True, eq=False)
class BlockEncoder:
    """Encodes blocks of rows: only timed records of one kind, of training cells, without test strategies."""

    kind: str
    families: dict[str, tuple[int, int]]
    """The family's number and the cell's number, by the family's name."""
    about: tuple[tuple[ModelSpec, ClusterSpec], ...]
    """The model and cluster of each family, by the family's number."""
    parts: dict[str, int]
    """The parts to encode, by name."""
    view: View

    def __call__(self, rows: RowBlock) -> dict[str, npt.NDArray[Any]]:
        names = ("model_digest", "cluster_json", "strategy_digest", "time", "numbers", "framework", "record_id")
        values = list(zip(*(rows.values(name) for name in names), strict=True))
        known: dict[tuple[str, str], tuple[int, int] | None] = {}
        places: list[int] = []
        numbers: list[tuple[bytes, int, int, bool]] = []
        for place, (model, cluster, strategy, time, gradients, framework, identity) in enumerate(values):
            if (model, cluster) not in known:
                known[model, cluster] = self.families.get(family_of(model, cluster))
            family, part = known[model, cluster], self.parts.get(split_of(strategy))
            if family is not None and part is not None and kind_of(time, gradients, framework) == self.kind:
                places.append(place)
                numbers.append((short(identity), *family, part == VALIDATION))
        records = rows.take(places).records
        timed = [place for place, record in enumerate(records) if record.timed]
        identities, families, cells, judges = (
            zip(*(numbers[place] for place in timed), strict=True) if timed else [()] * 4
        )
        block = RecordBlock([records[place] for place in timed], identities, families, cells, judges)
        return encode(block, self.about, self.view)


@final
@dataclass(frozen=True, eq=False)
class RecordStream:
    """The records of `survey`, all of one kind, in the training cells `cells`. Encoded inputs go to `folder`."""

    survey: Survey
    cells: Sequence[MeasuredCell]
    folder: Path

    @cached_property
    def for_base(self) -> list[RuntimeRecord]:
        order = self._order(TRAIN)
        count = min(len(order), MOST_RECORDS)
        chosen = [order[index * len(order) // count] for index in range(count)]
        return self.survey.at(np.array(chosen, dtype=np.int64)).records()

    def training_records(self, view: View) -> TrainingRecords:
        shard = EncodedShard.write(stream_blocks(self.survey.folder, self.encoder(view)), self.folder / "inputs")
        return assemble(shard, self.family_keys, SINGLE_WORKER)

    def encoder(self, view: View) -> BlockEncoder:
        kind = self.survey.kinds[int(self.survey.figures["kind"][0])]
        names = {name: (number, cell) for number, (name, cell, _, _) in enumerate(self._families)}
        about = tuple((model, cluster) for _, _, model, cluster in self._families)
        return BlockEncoder(kind, names, about, {"train": TRAIN, "validation": VALIDATION}, view)

    @property
    def family_keys(self) -> list[str]:
        return [family_key(model, cluster) for _, _, model, cluster in self._families]

    @cached_property
    def _cell_numbers(self) -> dict[str, int]:
        about = [cell.measurements[0].trials[0] for cell in self.cells]
        return {cell_of(trial.model.digest, trial.cluster.digest): number for number, trial in enumerate(about)}

    @cached_property
    def _families(self) -> list[tuple[str, int, ModelSpec, ClusterSpec]]:
        """Each training family: its name, its cell's number, and its first record's model and cluster. The first record
        decides, because a model may have been profiled several times.
        """
        first: dict[int, int] = {}
        families = self.survey.figures["family"]
        for part in (TRAIN, VALIDATION):
            order = self._order(part)
            numbers, places = np.unique(families[order], return_index=True)
            for number, place in zip(numbers.tolist(), places.tolist(), strict=True):
                first.setdefault(number, int(order[place]))
        records = self.survey.at(np.array(list(first.values()), dtype=np.int64)).records()
        return [
            (
                self.survey.families[number],
                self._cell_numbers[cell_of(record.model.digest, record.cluster.digest)],
                record.model,
                record.cluster,
            )
            for number, record in zip(first, records, strict=True)
        ]

    def _order(self, part: int) -> npt.NDArray[np.int64]:
        """Return the places of the part's records in training order: cell by cell, in order of their start."""
        figures = self.survey.figures
        numbers = np.array([self._cell_numbers.get(cell, -1) for cell in self.survey.cells], dtype=np.int64)
        cells = numbers[figures["cell"]]
        chosen = np.flatnonzero((figures["part"] == part) & (cells >= 0))
        return chosen[np.lexsort((figures["strategy"][chosen], figures["started_at"][chosen], cells[chosen]))]
