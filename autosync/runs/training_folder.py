"""Reads the folder of `autosync train`: the model, the strategy's digest, and the lines that training printed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from autosync.errors import AutosyncError, SpecError
from autosync.runs.documents import document_in
from autosync.spec import ReadLimits, cut, quote
from autosync.spec.reading import parse_json, read_bytes

LINES = ReadLimits(size=64 << 20, values=4_000_000)
"""A line of `loss.jsonl` has about 120 bytes, so half a million lines fit."""

FIGURES = ("step", "loss", "examples_per_second", "step_seconds")


@dataclass(frozen=True)
class TrainingRun:
    """A training run. `lines` are the lines of `loss.jsonl`, in order; a torn last line is left out."""

    directory: Path
    model: str
    strategy_digest: str
    lines: tuple[Mapping[str, float], ...]

    @property
    def steps(self) -> int:
        """The last step that training printed."""
        return int(self.lines[-1]["step"]) if self.lines else 0

    @property
    def loss(self) -> float | None:
        return self.lines[-1]["loss"] if self.lines else None

    @property
    def median_step_seconds(self) -> float | None:
        """The median over lines of the mean step seconds, without the first line, which holds the warm-up."""
        later = [line["step_seconds"] for line in self.lines[1:] or self.lines]
        return statistics.median(later) if later else None


def is_training(document: Mapping[str, Any]) -> bool:
    """Whether a `run.json` belongs to a training run: it has no name, because training leaves no records."""
    return "name" not in document and isinstance(document.get("strategy"), str)


def read_training(directory: Path) -> TrainingRun:
    """The training run in `directory`. Raises `AutosyncError`."""
    document = document_in(directory / "run.json") or {}
    if not is_training(document) or not isinstance(document.get("model"), str):
        raise AutosyncError(f"{directory / 'run.json'} must state the model and the strategy of a training run.")
    lines = _lines(directory / "loss.jsonl")
    return TrainingRun(directory, cut(document["model"]), document["strategy"], lines)


def _lines(file: Path) -> tuple[Mapping[str, float], ...]:
    if not file.exists():
        return ()
    try:
        written = read_bytes(file, str(file), LINES.size, through_links=False).splitlines()
        documents = [parse_json(line, f"A line of {file}", finite=False) for line in written[:-1]]
    except SpecError as error:
        raise AutosyncError(str(error)) from None
    except OSError as error:
        raise AutosyncError(f"{file} cannot be read: {error.strerror}.") from None
    with suppress(SpecError):  # training may have been killed while it wrote
        documents += [parse_json(line, "The last line", finite=False) for line in written[-1:]]
    for document in documents:
        for name in FIGURES:
            value = document.get(name)
            if not _is_number(value) or (name == "step" and not 0 <= value < 2**53):
                raise AutosyncError(f"In {file} {name!r} must be a number, not {quote(value)}; remove the line.")
    return tuple({name: float(document[name]) for name in FIGURES} for document in documents)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
