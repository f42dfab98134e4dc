"""The rounds of a collection: makes each cluster, visits it, and always takes it down again."""

import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from autosync.dataset import RecordStore
from autosync.errors import ClusterError
from autosync.stats.cells import CellName
from studies.collect.events import (
    CollectionProgress,
    Event,
    SkippedSlot,
    TrialEvent,
    Trouble,
    VisitRequest,
    parse_event,
)
from studies.collect.folder import Folder
from studies.collect.head import OPENING_SECONDS, lines_on_head
from studies.collect.plan import Plan, cluster_of
from studies.collect.schedule import FinishedSlots, rounds_of, slots_until
from trials.emulate import down, emulated

MOST_TROUBLES = 3
"""Visits in a row without progress in a cell, after which the cell is left out until the next start."""


@dataclass(frozen=True)
class CollectionOrder:
    """A request to collect some cells of a plan."""

    plan_file: Path
    plan: Plan
    cells: tuple[CellName, ...]
    folder: Folder
    seconds: float
    """Seconds after which no trial starts; may be infinite."""
    settle_seconds: float
    """Longest time, in seconds, that a trial waits for other work on the machine to end."""
    profile: Path | None = None
    """The file of the device profile that paced passes follow; None to follow passes on this machine."""


@final
class Collection:
    """Carries out an order. Its only state is the records on disk, so it can be stopped at any moment and restarted."""

    def __init__(self, order: CollectionOrder, say: Callable[[str], None]) -> None:
        self._order = order
        self._say = say
        self._store = RecordStore.create(order.folder.records)
        rows = self._store.read_table(["run", "sequence", "outcome"]).to_pylist()
        self._done = FinishedSlots(order.plan, ((row["run"], row["sequence"], row["outcome"]) for row in rows))
        self._troubles: Counter[CellName] = Counter()
        self._deadline = time.monotonic() + order.seconds
        self.progress = CollectionProgress(order.plan, order.cells, self._done)

    def run(self) -> bool:
        """Run every round, and repeat the last round while it makes progress; return whether all slots are finished."""
        last = rounds_of(self._order.plan) - 1
        for round_number in range(last + 1):
            self._round(round_number)
        while any(self._is_due(cell, last) for cell in self._order.cells) and not self.time_is_over:
            self._round(last)
        return self.progress.left == 0

    def _round(self, number: int) -> None:
        """Visit every cluster once; each round starts with another cluster."""
        clusters = list(dict.fromkeys(cell.cluster for cell in self._order.cells))
        first = number % len(clusters)
        for cluster in clusters[first:] + clusters[:first]:
            due = [cell for cell in self._order.cells if cell.cluster == cluster and self._is_due(cell, number)]
            if due and not self.time_is_over:
                self._visit(due, number)

    def _is_due(self, cell: CellName, round_number: int) -> bool:
        slots = slots_until(self._order.plan, cell, round_number)
        return not self._is_given_up(cell) and bool(self._done.left(cell, slots))

    def _is_given_up(self, cell: CellName) -> bool:
        return self._troubles[cell] >= MOST_TROUBLES

    @property
    def time_is_over(self) -> bool:
        return time.monotonic() > self._deadline

    def _visit(self, cells: Sequence[CellName], round_number: int) -> None:
        """Make one cluster, visit it and take it down. Raises only `DatasetError`, if records cannot be written."""
        order, cluster = self._order, cells[0].cluster
        request = VisitRequest(
            order.plan_file.resolve(),
            order.folder.path.resolve(),
            cluster,
            tuple(cell.model for cell in cells),
            round_number,
            max(self._deadline - time.monotonic(), 0.0),
            order.settle_seconds,
            order.profile and order.profile.resolve(),
        )
        before = {cell: self.progress.left_of(cell) for cell in cells}
        try:
            spec = cluster_of(order.plan, order.plan_file, cluster)
            patience = OPENING_SECONDS + order.plan.trial_time_limit_seconds + order.settle_seconds
            down(order.folder.cluster_name)  # remains of a killed collection
            with emulated(order.folder.cluster_name, spec) as made:
                for line in lines_on_head(made.hosts[0], "studies.collect.visit", request.to_json(), patience):
                    self._take_up(parse_event(line) or line)
        except (ClusterError, OSError, subprocess.SubprocessError) as error:
            self._say(f"Cluster {cluster}: {error}")
        for cell in cells:
            advanced = self.progress.left_of(cell) < before[cell] or self.time_is_over
            self._troubles[cell] = 0 if advanced else self._troubles[cell] + 1
            if self._is_given_up(cell):
                self._say(f"{cell} is left out from now on, because {MOST_TROUBLES} visits in a row had no result.")
        self._store.compact()

    def _take_up(self, event: Event | str) -> None:
        if isinstance(event, TrialEvent):
            self._done.count(event.cell, event.sequence, event.outcome)
            self._say(self.progress.line(event))
        elif isinstance(event, SkippedSlot):
            self._done.skip(event.cell, event.sequence)
        elif isinstance(event, Trouble):
            self._say(f"{event.cell}: {event.why}")
        else:
            self._say(event)
