"""A simulator fitted on a dataset, and the card that says how good it is."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from autosync.simulator.learned import LearnedSimulator
from autosync.studies.evaluation import METRICS, MeasuredCell, Predictions
from autosync.studies.evaluation.streams import RecordStream
from autosync.studies.evaluation.survey import Survey


def pretrained(cells: Sequence[MeasuredCell], network: str, seed: int) -> LearnedSimulator:
    """A simulator that has learned from the cells' training and validation parts."""
    learned = LearnedSimulator(network=network, seed=seed)
    train, validation = ([trial for cell in cells for trial in cell.trials(part)] for part in ("train", "validation"))
    learned.fit(train, validation=validation)
    return learned


def pretrained_by_stream(
    cells: Sequence[MeasuredCell], survey: Survey, network: str, seed: int, workers: int | None = None
) -> LearnedSimulator:
    """What `pretrained` gives of all records of the survey, of which `cells` are a sample: up to rounding the same.

    With `workers` that many processes of Ray Train fit it together. Raises `SpecError` for a network of which inputs
    are not kept on disk.
    """
    with TemporaryDirectory() as folder:
        stream = RecordStream(survey, cells, Path(folder))
        if workers is None:
            learned = LearnedSimulator(network=network, seed=seed)
            learned.fit_stream(stream)
            return learned
        from autosync.studies.evaluation.workers import fitted_by_workers  # Ray Train

        return fitted_by_workers(stream, network, seed, workers)


def card_of(learned: LearnedSimulator, cells: Sequence[MeasuredCell]) -> dict[str, Any]:
    """What the simulator learned from, and every metric on the test part of each cell, as JSON."""
    rows: list[dict[str, Any]] = [
        {"cell": cell.name, "tested": len(cell.tested), **_metrics(learned, cell)} for cell in cells
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
    tested, about = cell.tested, cell.measurements[0].trials[0]
    strategies = [each.trials[0].strategy for each in tested]
    mean, spread = learned.predict_with_spread(about.model, about.cluster, strategies)
    measured = np.log([each.seconds for each in tested])
    predictions = Predictions(mean, measured, cell.errors(tested), spread)
    return {name: _rounded(metric.of(predictions)) for name, metric in METRICS.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return _rounded(np.mean(known)) if known else None


def _rounded(value: Any) -> float | None:
    """A number for JSON, which has no NaN."""
    return round(float(value), 4) if np.isfinite(value) else None
