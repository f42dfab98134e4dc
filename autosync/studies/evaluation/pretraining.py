"""A simulator fitted on a dataset, and the card that says how good it is."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosync.cost import Replay
from autosync.simulator.examples import data_digest
from autosync.simulator.learned import LearnedSimulator
from autosync.studies.evaluation import METRICS, MeasuredCell, Predictions


def pretrained(cells: Sequence[MeasuredCell], network: str, seed: int) -> LearnedSimulator:
    """A simulator that has learned from the cells' training and validation parts."""
    learned = LearnedSimulator(Replay(), network, seed)
    train, validation = ([trial for cell in cells for trial in cell.trials(part)] for part in ("train", "validation"))
    learned.fit(train, validation=validation)
    return learned


def card_of(learned: LearnedSimulator, cells: Sequence[MeasuredCell]) -> dict[str, Any]:
    """What the simulator learned from, and every metric on the test part of each cell, as JSON."""
    train = [trial for cell in cells for trial in cell.trials("train")]
    rows: list[dict[str, Any]] = [
        {"cell": cell.name, "tested": len(cell.tested), **_metrics(learned, cell)} for cell in cells
    ]
    return {
        "network": learned.network,
        "seed": learned.seed,
        "records": len(train),
        "data_digest": data_digest(train),
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
