"""The results of a pacing benchmark in a JSON file, which is complete after every row and lets the benchmark resume."""

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

__all__ = ["PaceResults", "Row"]

Row = dict[str, Any]


@final
class PaceResults:
    """The rows of a benchmark with the settings `asked`. A sitting records the host, the time and the code version.

    A row has the load average of the minute before it. Raises `SpecError` for a file with other settings.
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
            document = json.loads(path.read_text(encoding="utf-8"))
            if (document["benchmark"], document["asked"]) != (benchmark, self._document["asked"]):
                raise SpecError(
                    f"A benchmark can resume only from its own file, but {str(path)!r} is of {document['benchmark']!r} "
                    f"with {document['asked']}; use the same settings, or another --out."
                )
            self._document = document

    @classmethod
    def read(cls, path: Path) -> PaceResults:
        """Read the file at `path`."""
        document = json.loads(path.read_text(encoding="utf-8"))
        return cls(path, document["benchmark"], document["asked"])

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
        """The facts shared by all rows of a model, by the model's name."""
        return dict(self._document["cells"])

    def sit(self) -> None:
        """Note that measuring starts or resumes."""
        self._document["sittings"].append(
            asdict(Environment.here())
            | {"code": _commit(), "begun_at": time.time(), "load_average": os.getloadavg()[0]}
        )

    def note(self, model: str, **facts: Any) -> None:
        """Add `facts` to the facts of `model`."""
        self._document["cells"].setdefault(model, {}).update(facts)
        self._write()

    def rows(self, **having: Any) -> Iterator[Row]:
        """Return the rows with these field values, in the order of measuring."""
        return (row for row in self._document["rows"] if all(row.get(name) == value for name, value in having.items()))

    def has(self, **having: Any) -> bool:
        return any(self.rows(**having))

    def add(self, **row: Any) -> None:
        self._document["rows"].append(row)
        self._write()

    def end(self) -> None:
        """Note that all rows are measured."""
        self._document["complete"] = True
        self._write()

    def head(self) -> str:
        """Return a line with the host, the dates, the code and the versions of the measurement."""
        sittings, loads = self._document["sittings"], [row["load_average"] for row in self._document["rows"]]
        last = sittings[-1]
        when = ", ".join(
            dict.fromkeys(time.strftime("%Y-%m-%d", time.gmtime(sitting["begun_at"])) for sitting in sittings)
        )
        code = ", ".join(dict.fromkeys(sitting["code"] for sitting in sittings))
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
    """Return the commit of the source, marked if the source has changes."""

    def git(*words: str) -> str:
        done = subprocess.run(("git", *words), cwd=REPOSITORY, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    changed = git("status", "--porcelain", "--untracked-files=no")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + (", changed" if changed else "")
