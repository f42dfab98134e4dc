"""What a visit tells the collection that sent it: lines of JSON on its standard output."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from autosync.errors import SpecError
from autosync.spec import parse_json
from trials.collect.plan import Cell

__all__ = ["Errand", "Event", "Passed", "Told", "Trouble", "parse_event", "write_event"]


@dataclass(frozen=True)
class Errand:
    """What a visit is to do: time the due slots of `models` on a cluster that is up, until `seconds` are over.

    A trial waits for `settle_seconds` at most until other work on the machine has ended.
    """

    plan: Path
    out: Path
    cluster: str
    models: tuple[str, ...]
    round_number: int
    seconds: float
    settle_seconds: float

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"plan": str(self.plan), "out": str(self.out)})

    @classmethod
    def from_json(cls, text: str) -> Errand:
        document = parse_json(text, "An errand", finite=False)
        paths = {"plan": Path(document["plan"]), "out": Path(document["out"])}
        return cls(**(document | paths | {"models": tuple(document["models"])}))


@dataclass(frozen=True)
class Told:
    """A trial is over, and its record on disk."""

    cell: Cell
    sequence: int
    outcome: str
    digest: str
    label: str
    repeat: bool
    median_seconds: float | None
    reason: str


@dataclass(frozen=True)
class Passed:
    """There is nothing to time in a slot."""

    cell: Cell
    sequence: int


@dataclass(frozen=True)
class Trouble:
    """No more trials can be run in a cell on this visit."""

    cell: Cell
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
    event: Event = kind(**document | {"cell": Cell(**document["cell"])})
    return event
