"""What a benchmark has measured so far: a file of JSON that is whole after every row, and where it goes on from."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

from autosync.errors import SpecError
from tests.engine.worker_processes import REPOSITORY
from trials.clock import Environment

__all__ = ["Kept", "Row"]

Row = dict[str, Any]


@final
class Kept:
    """Rows of what was `asked` of a benchmark; each sitting says where, when and with which code it was.

    A row says its processors' load over a minute, just before. Raises `SpecError` for a file of something else.
    """

    def __init__(self, path: Path, benchmark: str, asked: Mapping[str, Any]) -> None:
        self._path = path
        self._document: dict[str, Any] = {
            "benchmark": benchmark,
            "asked": dict(asked),
            "complete": False,
            "sittings": [],
            "cells": {},
            "rows": [],
        }
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))
            if (found["benchmark"], found["asked"]) != (benchmark, self._document["asked"]):
                raise SpecError(
                    f"A benchmark goes on in a file of its own, but {str(path)!r} is of {found['benchmark']!r} with "
                    f"{found['asked']}; ask for the same again, or give another --out."
                )
            self._document = found

    @classmethod
    def read(cls, path: Path) -> Kept:
        """What the file at `path` holds."""
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(path, found["benchmark"], found["asked"])

    @property
    def benchmark(self) -> str:
        return str(self._document["benchmark"])

    @property
    def complete(self) -> bool:
        return bool(self._document["complete"])

    @property
    def asked(self) -> dict[str, Any]:
        return dict(self._document["asked"])

    @property
    def cells(self) -> dict[str, dict[str, Any]]:
        """What stays the same over a model's rows, by its name."""
        return dict(self._document["cells"])

    def sit(self) -> None:
        """Note that measuring begins, or goes on."""
        self._document["sittings"].append(
            asdict(Environment.here())
            | {"code": _commit(), "begun_at": time.time(), "load_average": os.getloadavg()[0]}
        )

    def note(self, model: str, **facts: Any) -> None:
        """Keep `facts` of the cell of `model`, beside those kept before."""
        self._document["cells"].setdefault(model, {}).update(facts)
        self._write()

    def rows(self, **having: Any) -> Iterator[Row]:
        """The rows with these fields, in the order in which they came."""
        return (row for row in self._document["rows"] if all(row.get(name) == value for name, value in having.items()))

    def has(self, **having: Any) -> bool:
        return any(self.rows(**having))

    def add(self, **row: Any) -> None:
        self._document["rows"].append(row)
        self._write()

    def end(self) -> None:
        """Note that all is measured."""
        self._document["complete"] = True
        self._write()

    def head(self) -> str:
        """A line on where, when and with what this was measured."""
        sittings, loads = self._document["sittings"], [row["load_average"] for row in self._document["rows"]]
        last = sittings[-1]
        when = ", ".join(dict.fromkeys(time.strftime("%Y-%m-%d", time.gmtime(each["begun_at"])) for each in sittings))
        code = ", ".join(dict.fromkeys(each["code"] for each in sittings))
        versions = ", ".join(f"{name} {version}" for name, version in last["versions"].items())
        load = f"; load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""
        state = "" if self.complete else " **Not complete.**"
        return f"{last['host']}; {when}; code {code}; {versions}{load}.{state}"

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".part")
        partial.write_text(json.dumps(self._document), encoding="utf-8")
        os.replace(partial, self._path)


def _commit() -> str:
    """The commit of the source, and whether it was changed since."""

    def said(*words: str) -> str:
        done = subprocess.run(("git", *words), cwd=REPOSITORY, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    changed = said("status", "--porcelain", "--untracked-files=no")
    return (said("rev-parse", "--short=12", "HEAD") or "unknown") + (", changed" if changed else "")
