"""The request of a collection to a visit, and the visit's events: lines of JSON on its standard output."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias, final

from autosync.errors import SpecError
from autosync.spec import parse_json
from autosync.stats.cells import CellName
from autosync.words.quantities import duration, milliseconds
from studies.collect.plan import Plan
from studies.collect.schedule import FinishedSlots, slots_of


@dataclass(frozen=True)
class VisitRequest:
    """A request to time the due slots of some models on a cluster that is up."""

    plan: Path
    """The file of the plan."""
    out: Path
    """The folder of the collection."""
    cluster: str
    """The name of the cluster in the plan."""
    models: tuple[str, ...]
    round_number: int
    """The round, counted from 0, whose slots are due."""
    seconds: float
    """Seconds after which no trial starts; may be infinite."""
    settle_seconds: float
    """Longest time, in seconds, that a trial waits for other work on the machine to end."""
    profile: Path | None = None
    """The file of the device profile that paced passes follow; None to follow passes on this machine."""

    def to_json(self) -> str:
        paths = {"plan": str(self.plan), "out": str(self.out), "profile": self.profile and str(self.profile)}
        return json.dumps(asdict(self) | paths)

    @classmethod
    def from_json(cls, text: str) -> VisitRequest:
        document = parse_json(text, "A visit request", finite=False)
        profile = document["profile"]
        paths = {"plan": Path(document["plan"]), "out": Path(document["out"]), "profile": profile and Path(profile)}
        return cls(**(document | paths | {"models": tuple(document["models"])}))


@dataclass(frozen=True)
class TrialEvent:
    """A trial has ended, and its record is on disk."""

    cell: CellName
    sequence: int
    """The number of the slot."""
    outcome: str
    digest: str
    """The digest of the strategy."""
    label: str
    repeat: bool
    """Whether the slot repeats an earlier strategy."""
    median_seconds: float | None
    """Median seconds of a step; None if the trial has no timing."""
    reason: str
    """The reason of a failure; empty otherwise."""
    time: str = "real"
    """Whether the times are real or paced."""


@dataclass(frozen=True)
class SkippedSlot:
    """A slot has no strategy to time."""

    cell: CellName
    sequence: int


@dataclass(frozen=True)
class Trouble:
    """No more trials of a cell can run on this visit."""

    cell: CellName
    why: str


Event: TypeAlias = TrialEvent | SkippedSlot | Trouble

KINDS = {"told": TrialEvent, "passed": SkippedSlot, "trouble": Trouble}


def write_event(event: Event) -> None:
    """Print the event as a line of JSON, which the collection reads from the pipe."""
    kind = next(name for name, kind_of_event in KINDS.items() if isinstance(event, kind_of_event))
    print(json.dumps({"collect": kind} | asdict(event)), flush=True)  # noqa: T201 - the pipe to the collection


def parse_event(line: str) -> Event | None:
    """Return the event in `line`; None if the line is other output of the process."""
    try:
        document: dict[str, Any] = dict(parse_json(line, "An event"))
        kind = KINDS[document.pop("collect")]
    except (SpecError, KeyError, TypeError, ValueError):
        return None
    event: Event = kind(**document | {"cell": CellName(**document["cell"])})
    return event


@final
class CollectionProgress:
    """Counts finished slots and estimates the time for the rest, including the start of visits."""

    def __init__(
        self, plan: Plan, cells: Sequence[CellName], done: FinishedSlots, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._slots = {cell: slots_of(plan, cell) for cell in cells}
        self._width = max(len(str(cell)) for cell in cells)
        self._done = done
        self._now = now
        self._begin = now()
        self._timed = 0
        self._not_ok: Counter[CellName] = Counter()

    @property
    def total(self) -> int:
        return sum(map(len, self._slots.values()))

    @property
    def left(self) -> int:
        return sum(map(self.left_of, self._slots))

    def left_of(self, cell: CellName) -> int:
        return len(self._done.left(cell, self._slots[cell]))

    def line(self, trial: TrialEvent) -> str:
        """Return the line for one trial, which `done` has already counted."""
        self._timed += 1
        self._not_ok[trial.cell] += trial.outcome not in ("ok", "stopped")
        number = f"{self.total - self.left:{len(str(self.total))}d}/{self.total}"
        label = f"{trial.label}, again" if trial.repeat else trial.label
        result = milliseconds(trial.median_seconds, trial.time) if trial.outcome == "ok" else trial.outcome
        line = f"{number}  {trial.cell!s:<{self._width}}  {trial.digest[:8]}  {label:<32.32}{result:>10}"
        line += f"  {duration(self._seconds_left())} left"
        return f"{line}  {trial.reason}" if trial.reason else line

    def summary(self) -> list[str]:
        """Return lines with the progress of each cell."""
        lines = []
        for cell, slots in self._slots.items():
            count = len(slots) - self.left_of(cell)
            failed = f", {self._not_ok[cell]} failed or lost in this run" if self._not_ok[cell] else ""
            lines.append(f"{cell!s:<{self._width}}  {count:4d} of {len(slots)}{failed}")
        elapsed = self._now() - self._begin
        lines.append(f"{self._timed} trials in {duration(elapsed)}; {self.left} of {self.total} are left.")
        return lines

    def _seconds_left(self) -> float:
        return (self._now() - self._begin) / max(self._timed, 1) * self.left
