"""Runs for programs: what `autosync runs list` and `autosync runs show` print with `--json`."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autosync.runs.contenders import contenders_of
from autosync.runs.listing import RACE, TRAINING, RunSummary, directory_called, list_runs, run_called, summarize
from autosync.runs.race_folder import RaceFolder
from autosync.runs.run import read_run
from autosync.runs.shown import files_of
from autosync.runs.training_folder import read_training
from autosync.spec.address import Place


def list_json(folder: Path) -> list[dict[str, Any]]:
    """A document per run in `folder`, the latest first. Raises `AutosyncError` if the folder cannot be read."""
    return [_summary_json(run) for run in list_runs(folder)]


def run_json(name: str | None, data: Place | None) -> dict[str, Any]:
    """The run `name` of any kind, by default the latest search: its summary, its outcome and its files.

    Raises `AutosyncError`.
    """
    directory = run_called(None) if name is None else directory_called(name)
    summary = summarize(directory)
    assert summary is not None, "it holds a run"
    document = _summary_json(summary) | {"files": {key: str(file) for key, file in files_of(directory).items()}}
    if summary.kind == RACE:
        return document | {"result": RaceFolder(directory).result()}
    if summary.kind == TRAINING:
        training = read_training(directory)
        return document | {"strategy_digest": training.strategy_digest, "lines": list(training.lines)}
    run = read_run(directory, data)
    return document | {"result": run.result, "contenders": [row.to_json() for row in contenders_of(run)]}


def _summary_json(run: RunSummary) -> dict[str, Any]:
    """The fields of a `RunSummary`, with the folder as `run`."""
    fields = asdict(run)
    begun = None if math.isinf(run.begun) else run.begun
    return {"run": str(fields.pop("directory")), **fields, "begun": begun}
