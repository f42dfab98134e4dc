"""Fits a simulator on a dataset, and makes the card with its accuracy."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from autosync.pretraining.cells import MeasuredCell
from autosync.pretraining.metrics import METRICS, Predictions
from autosync.pretraining.new_simulator import new_simulator
from autosync.pretraining.streams import RecordStream
from autosync.pretraining.survey import Survey
from autosync.simulator.learned import LearnedSimulator


def fit_in_memory(cells: Sequence[MeasuredCell], network: str, seed: int) -> LearnedSimulator:
    """Return a simulator fitted on the cells' training and validation parts."""
    learned = new_simulator(cells[0].measurements[0].trials, network, seed)
    train, validation = ([trial for cell in cells for trial in cell.trials(part)] for part in ("train", "validation"))
    learned.fit(train, validation=validation)
    return learned


def fit_by_stream(
    cells: Sequence[MeasuredCell], survey: Survey, network: str, seed: int, workers: int | None = None
) -> LearnedSimulator:
    """Return the result of `fit_in_memory` on all records of the survey, up to rounding; `cells` are a sample of these.

    With `workers`, that many processes of Ray Train fit it together. Raises `SpecError` for a network whose inputs are
    not kept on disk.
    """
    with TemporaryDirectory() as folder:
        stream = RecordStream(survey, cells, Path(folder))
        if workers is None:
            learned = new_simulator(stream.for_base, network, seed)
            learned.fit_stream(stream)
            return learned
        from autosync.pretraining.workers import fit_by_workers  # Ray Train

        return fit_by_workers(stream, network, seed, workers)


def card_of(learned: LearnedSimulator, cells: Sequence[MeasuredCell]) -> dict[str, Any]:
    """Return the number and digest of the training records, and every metric on the test part of each cell, as JSON."""
    rows: list[dict[str, Any]] = [
        {"cell": cell.name, "tested": len(cell.test_measurements), **_metrics(learned, cell)} for cell in cells
    ]
    return {
        "network": learned.network,
        "seed": learned.seed,
        "records": learned.record_count,
        "data_digest": learned.data_digest,
        "cells": rows,
        "mean": {name: _mean([row[name] for row in rows]) for name in METRICS},
    }


def _metrics(learned: LearnedSimulator, cell: MeasuredCell) -> dict[str, float | None]:
    tested, about = cell.test_measurements, cell.measurements[0].trials[0]
    strategies = [measurement.trials[0].strategy for measurement in tested]
    mean, spread = learned.predict_with_spread(about.model, about.cluster, strategies)
    measured = np.log([measurement.seconds for measurement in tested])
    predictions = Predictions(mean, measured, cell.errors(tested), spread)
    return {name: _json_number(metric.of(predictions)) for name, metric in METRICS.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _json_number(np.mean(known)) if known else None


def _json_number(value: Any) -> float | None:
    """Return a number for JSON, which has no NaN."""
    return round(float(value), 4) if np.isfinite(value) else None
