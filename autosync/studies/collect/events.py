"""What a collection asks of a visit, and what the visit tells it: lines of JSON on its standard output."""

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
from autosync.studies.collect.plan import Plan
from autosync.studies.collect.schedule import Done, slots_of
from autosync.words.quantities import duration, milliseconds


@dataclass(frozen=True)
class Errand:
    """What a visit is to do: time the due slots of `models` on a cluster that is up, until `seconds` are over.

    A trial waits for `settle_seconds` at most until other work on the machine has ended. `profile` is the file of what
    paced passes follow, if that is no pass here.
    """

    plan: Path
    out: Path
    cluster: str
    models: tuple[str, ...]
    round_number: int
    seconds: float
    settle_seconds: float
    profile: Path | None = None

    def to_json(self) -> str:
        paths = {"plan": str(self.plan), "out": str(self.out), "profile": self.profile and str(self.profile)}
        return json.dumps(asdict(self) | paths)

    @classmethod
    def from_json(cls, text: str) -> Errand:
        document = parse_json(text, "An errand", finite=False)
        profile = document["profile"]
        paths = {"plan": Path(document["plan"]), "out": Path(document["out"]), "profile": profile and Path(profile)}
        return cls(**(document | paths | {"models": tuple(document["models"])}))


@dataclass(frozen=True)
class Told:
    """A trial is over, and its record on disk."""

    cell: CellName
    sequence: int
    outcome: str
    digest: str
    label: str
    repeat: bool
    median_seconds: float | None
    reason: str
    time: str = "real"


@dataclass(frozen=True)
class Passed:
    """There is nothing to time in a slot."""

    cell: CellName
    sequence: int


@dataclass(frozen=True)
class Trouble:
    """No more trials can be run in a cell on this visit."""

    cell: CellName
    why: str


Event: TypeAlias = Told | Passed | Trouble

KINDS = {"told": Told, "passed": Passed, "trouble": Trouble}


def write_event(event: Event) -> None:
    kind = next(name for name, each in KINDS.items() if isinstance(event, each))
    print(json.dumps({"collect": kind} | asdict(event)), flush=True)  # noqa: T201 - the pipe to the collection


def parse_event(line: str) -> Event | None:
    """The event in `line`; None when somebody else wrote it."""
    try:
        document: dict[str, Any] = dict(parse_json(line, "An event"))
        kind = KINDS[document.pop("collect")]
    except (SpecError, KeyError, TypeError, ValueError):
        return None
    event: Event = kind(**document | {"cell": CellName(**document["cell"])})
    return event


@final
class CollectionProgress:
    """Counts what is done and estimates how long the rest takes, visits' beginnings included."""

    def __init__(
        self, plan: Plan, cells: Sequence[CellName], done: Done, now: Callable[[], float] = time.monotonic
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

    def line(self, told: Told) -> str:
        """The line for one trial, which `done` knows already."""
        self._timed += 1
        self._not_ok[told.cell] += told.outcome not in ("ok", "stopped")
        number = f"{self.total - self.left:{len(str(self.total))}d}/{self.total}"
        label = f"{told.label}, again" if told.repeat else told.label
        what = milliseconds(told.median_seconds, told.time) if told.outcome == "ok" else told.outcome
        line = f"{number}  {told.cell!s:<{self._width}}  {told.digest[:8]}  {label:<32.32}{what:>10}"
        line += f"  {duration(self._seconds_left())} left"
        return f"{line}  {told.reason}" if told.reason else line

    def summary(self) -> list[str]:
        """Lines that say how far every cell is."""
        lines = []
        for cell, slots in self._slots.items():
            count = len(slots) - self.left_of(cell)
            failed = f", {self._not_ok[cell]} failed or lost now" if self._not_ok[cell] else ""
            lines.append(f"{cell!s:<{self._width}}  {count:4d} of {len(slots)}{failed}")
        gone = self._now() - self._begin
        lines.append(f"{self._timed} trials in {duration(gone)}; {self.left} of {self.total} are left.")
        return lines

    def _seconds_left(self) -> float:
        return (self._now() - self._begin) / max(self._timed, 1) * self.left
