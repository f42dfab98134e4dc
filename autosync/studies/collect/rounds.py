"""The rounds of a collection: cluster after cluster is made, visited and taken down, whatever happens on the way."""

import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from autosync.dataset import RecordStore
from autosync.errors import ClusterError
from autosync.stats.cells import CellName
from autosync.studies.collect.events import CollectionProgress, Errand, Event, Passed, Told, Trouble, parse_event
from autosync.studies.collect.folder import Folder
from autosync.studies.collect.plan import Plan, cluster_of
from autosync.studies.collect.schedule import Done, rounds_of, slots_until
from trials.emulate import Host, down, emulated, start_inside

MOST_TROUBLES = 3
"""Visits in a row with trouble in a cell after which it is left out until the next start."""

OPENING_SECONDS = 600.0
"""Seconds that Ray, the workers and the capture of a model may take before a visit is ended as hung."""


@dataclass(frozen=True)
class Order:
    """What is asked for: `cells` of the plan in `plan_file`, for so many seconds.

    A trial waits for `settle_seconds` at most until other work on the machine has ended. `profile` is the file of what
    paced passes follow, if that is no pass here.
    """

    plan_file: Path
    plan: Plan
    cells: tuple[CellName, ...]
    folder: Folder
    seconds: float
    settle_seconds: float
    profile: Path | None = None


@final
class Collection:
    """Works off an order. The records on disk are all its state: it may be stopped at any moment and started again."""

    def __init__(self, order: Order, say: Callable[[str], None]) -> None:
        self._order = order
        self._say = say
        self._store = RecordStore.create(order.folder.records)
        rows = self._store.read_table(["run", "sequence", "outcome"]).to_pylist()
        self._done = Done(order.plan, ((row["run"], row["sequence"], row["outcome"]) for row in rows))
        self._troubles: Counter[CellName] = Counter()
        self._deadline = time.monotonic() + order.seconds
        self.progress = CollectionProgress(order.plan, order.cells, self._done)

    def run(self) -> bool:
        """Run every round, and the last one again while that helps; return whether nothing is left to do."""
        last = rounds_of(self._order.plan) - 1
        for round_number in range(last + 1):
            self._round(round_number)
        while any(self._is_due(cell, last) for cell in self._order.cells) and not self.time_is_over:
            self._round(last)
        return self.progress.left == 0

    def _round(self, number: int) -> None:
        """Visit every cluster once, beginning with another one each round."""
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
        """Visit one cluster, made for this and gone afterwards. Raises `DatasetError` alone, if nothing can be kept."""
        order, cluster = self._order, cells[0].cluster
        errand = Errand(
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
            down(order.folder.emulated_name)  # what a kill may have left
            with emulated(order.folder.emulated_name, spec) as made:
                for event in _events(made.hosts[0], errand, patience):
                    self._take_up(event)
        except (ClusterError, OSError, subprocess.SubprocessError) as error:
            self._say(f"Cluster {cluster}: {error}")
        for cell in cells:
            helped = self.progress.left_of(cell) < before[cell] or self.time_is_over
            self._troubles[cell] = 0 if helped else self._troubles[cell] + 1
            if self._is_given_up(cell):
                self._say(f"{cell} is left out from now on: {MOST_TROUBLES} visits in a row brought nothing.")
        self._store.compact()

    def _take_up(self, event: Event | str) -> None:
        if isinstance(event, Told):
            self._done.count(event.cell, event.sequence, event.outcome)
            self._say(self.progress.line(event))
        elif isinstance(event, Passed):
            self._done.pass_over(event.cell, event.sequence)
        elif isinstance(event, Trouble):
            self._say(f"{event.cell}: {event.why}")
        else:
            self._say(event)


def _events(head: Host, errand: Errand, patience_seconds: float) -> Iterator[Event | str]:
    """Run the errand on `head`: what it tells, and other lines as they are. Raises `ClusterError` if it hangs or dies.

    Where the caller stops early, the process is ended with its cluster.
    """
    child = start_inside(
        head,
        [sys.executable, "-m", "autosync.studies.collect.visit", errand.to_json()],
        # The process thinks up strategies; on the head's share of a core it would be what the trials wait for.
        within_quota=False,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_pour, args=(child.stdout, lines), daemon=True).start()
    while (line := _next(lines, patience_seconds)) is not None:
        yield parse_event(line) or line.rstrip()
    child.wait()
    if child.returncode < 0:
        raise ClusterError(f"The process that ran the trials was ended by signal {-child.returncode}.")


def _pour(stream: Any, lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _next(lines: queue.Queue[str | None], patience_seconds: float) -> str | None:
    """The next line, or None at the end."""
    try:
        return lines.get(timeout=patience_seconds)
    except queue.Empty:
        raise ClusterError(f"Nothing was heard of the trials for {patience_seconds:g} s; they are ended.") from None
