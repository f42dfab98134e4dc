"""Records streamed into a fit: those of the cells that are taught, encoded by Ray's tasks where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.cost.replay.simulator import MOST_RECORDS
from autosync.dataset import SPLITS, Rows, split_of, streamed
from autosync.simulator.crew import ALONE
from autosync.simulator.examples import family_key
from autosync.simulator.streamed import Block, Shard, Taught, assembled, encoded, short
from autosync.simulator.view import View
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord
from autosync.spec.kept import kind_of
from autosync.studies.evaluation.cells import MeasuredCell
from autosync.studies.evaluation.survey import Survey, cell_of, family_of

TRAIN, VALIDATION = (SPLITS.index(part) for part in ("train", "validation"))


@final
@dataclass(frozen=True, eq=False)
class Encoder:
    """Makes arrays of blocks of rows: of those of a kind, timed, of a cell that is taught, and of no test strategy.

    `families` has a number, a cell's number, a model and a cluster for each name of a family.
    """

    kind: str
    families: dict[str, tuple[int, int]]
    about: tuple[tuple[ModelSpec, ClusterSpec], ...]
    parts: dict[str, int]
    view: View

    def __call__(self, rows: Rows) -> dict[str, npt.NDArray[Any]]:
        names = ("model_digest", "cluster_json", "strategy_digest", "time", "numbers", "record_id")
        values = list(zip(*(rows.values(name) for name in names), strict=True))
        known: dict[tuple[str, str], tuple[int, int] | None] = {}
        places: list[int] = []
        numbers: list[tuple[bytes, int, int, bool]] = []
        for place, (model, cluster, strategy, time, gradients, identity) in enumerate(values):
            if (model, cluster) not in known:
                known[model, cluster] = self.families.get(family_of(model, cluster))
            family, part = known[model, cluster], self.parts.get(split_of(strategy))
            if family is not None and part is not None and kind_of(time, gradients) == self.kind:
                places.append(place)
                numbers.append((short(identity), *family, part == VALIDATION))
        found = rows.take(places).records
        timed = [place for place, record in enumerate(found) if record.timed]
        identities, families, cells, judges = (
            zip(*(numbers[each] for each in timed), strict=True) if timed else [()] * 4
        )
        block = Block([found[each] for each in timed], identities, families, cells, judges)
        return encoded(block, self.about, self.view)


@final
@dataclass(frozen=True, eq=False)
class RecordStream:
    """The records of `survey`, all of one kind, that `cells` teach; what is encoded goes to `folder`."""

    survey: Survey
    cells: Sequence[MeasuredCell]
    folder: Path

    @cached_property
    def for_base(self) -> list[RuntimeRecord]:
        order = self._order(TRAIN)
        count = min(len(order), MOST_RECORDS)
        chosen = [order[index * len(order) // count] for index in range(count)]
        return self.survey.at(np.array(chosen, dtype=np.int64)).records()

    def taught(self, view: View) -> Taught:
        shard = Shard.written(streamed(self.survey.folder, self.encoder(view)), self.folder / "inputs")
        return assembled(shard, self.family_keys, ALONE)

    def encoder(self, view: View) -> Encoder:
        kind = self.survey.kinds[int(self.survey.figures["kind"][0])]
        names = {name: (number, cell) for number, (name, cell, _, _) in enumerate(self._families)}
        about = tuple((model, cluster) for _, _, model, cluster in self._families)
        return Encoder(kind, names, about, {"train": TRAIN, "validation": VALIDATION}, view)

    @property
    def family_keys(self) -> list[str]:
        return [family_key(model, cluster) for _, _, model, cluster in self._families]

    @cached_property
    def _cell_numbers(self) -> dict[str, int]:
        about = [cell.measurements[0].trials[0] for cell in self.cells]
        return {cell_of(each.model.digest, each.cluster.digest): number for number, each in enumerate(about)}

    @cached_property
    def _families(self) -> list[tuple[str, int, ModelSpec, ClusterSpec]]:
        """Each family that is taught: its name, its cell's number, and its first record's model and cluster, since one
        model may have been profiled several times."""
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
                self._cell_numbers[cell_of(each.model.digest, each.cluster.digest)],
                each.model,
                each.cluster,
            )
            for number, each in zip(first, records, strict=True)
        ]

    def _order(self, part: int) -> npt.NDArray[np.int64]:
        """Places of the part's records as they are taught: cell by cell, in order of their start."""
        figures = self.survey.figures
        numbers = np.array([self._cell_numbers.get(each, -1) for each in self.survey.cells], dtype=np.int64)
        cells = numbers[figures["cell"]]
        chosen = np.flatnonzero((figures["part"] == part) & (cells >= 0))
        return chosen[np.lexsort((figures["strategy"][chosen], figures["started_at"][chosen], cells[chosen]))]
