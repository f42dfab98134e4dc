"""Occasions: groups of trials that were timed without a pause, and the drift of the machine between occasions.

A machine's speed drifts from occasion to occasion, by about the same factor for all strategies. Over 60 visits of the
dataset's cells, of about 20 trials each, step times drifted by 7 % (standard deviation) between visits, which is also
the error of a learned simulator within a visit. Without the drift, a tenth of the strategies timed twice differ by over
11 %; with the drift, by over 19 %. Times of different occasions are therefore compared only after their drifts have
been subtracted.

Notation: n records with residuals e (n,), measured minus expected log seconds. Records of one model, cluster and
occasion o share a drift d_o ~ N(0, DRIFT^2) about the level of their model and cluster; each record has an independent
error ~ N(0, ERROR^2). With m_o the median of e on o and v_o = DRIFT^2 + ERROR^2 / n_o, the level is the mean of m_o
weighted by 1 / v_o, and the expected d_o is (m_o - level) DRIFT^2 / v_o.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from autosync.numeric import FloatArray, IntArray
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

PAUSE_SECONDS = 1200.0
"""The longest pause in an occasion, in seconds: long enough that a random subset of an occasion stays one occasion."""
DRIFT, ERROR = 0.07, 0.08


@final
@dataclass(frozen=True, eq=False)
class Timed:
    """Training records of a fit: `records` that hold a step time, and their `weights` over 0, float64 (n,)."""

    records: list[RuntimeRecord]
    weights: FloatArray

    @classmethod
    def of(cls, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> Timed:
        """The subset of `records` that hold a step time and have a weight over 0; without `weights`, weights are 1."""
        all_weights = np.ones(len(records)) if weights is None else np.asarray(weights, dtype=np.float64)
        kept = [place for place, record in enumerate(records) if record.timed and all_weights[place] > 0]
        return cls(list(records), all_weights)._at(kept)

    def heaviest(self, most: int) -> Timed:
        """The records with the largest weights, at most `most`, chosen by the function `heaviest`."""
        return self._at(heaviest(self.weights, most))

    @cached_property
    def log_seconds(self) -> FloatArray:
        """Logarithms of the records' median step seconds, (n,)."""
        return np.log(np.array([record.median_seconds for record in self.records], dtype=np.float64))

    @cached_property
    def occasions(self) -> IntArray:
        return occasions_of(self.records)

    def families(self) -> Iterator[tuple[ModelSpec, ClusterSpec, IntArray, list[Strategy]]]:
        """Yield each model and cluster with the positions (k,) of its records and their strategies."""
        for (model, cluster), places in positions_by_family(self.records).items():
            yield model, cluster, np.array(places), [self.records[place].strategy for place in places]

    def _at(self, places: Sequence[int]) -> Timed:
        return Timed([self.records[place] for place in places], self.weights[np.array(places, dtype=np.int64)])


def heaviest(weights: FloatArray, most: int) -> list[int]:
    """Positions of the largest weights, at most `most`, in order; evenly spaced among equal weights that do not all
    fit."""
    chosen: list[int] = []
    for weight in np.unique(weights)[::-1]:
        alike, room = np.flatnonzero(weights == weight).tolist(), most - len(chosen)
        if len(alike) > room:
            alike = [alike[index * len(alike) // room] for index in range(room)]
        chosen += alike
    return sorted(chosen)


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """The value with half of the weight on either side, interpolated between two values if necessary."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(weights.sum() / 2, reached, values[order]))


def occasions_of(records: Sequence[RuntimeRecord]) -> IntArray:
    """The number of each record's occasion, (n,): trials of one run, model and cluster without a long pause."""
    runs: dict[tuple[str, str, str], int] = {}
    keys = [(record.model.digest, record.cluster.digest, record.run) for record in records]
    return occasions_among(
        np.array([runs.setdefault(key, len(runs)) for key in keys], dtype=np.int64),
        np.array([record.started_at for record in records], dtype=np.float64),
        np.array([record.total_seconds for record in records], dtype=np.float64),
    )


def occasions_among(runs: IntArray, started_at: FloatArray, total_seconds: FloatArray) -> IntArray:
    """`occasions_of` records with the numbers `runs`, one per run, model and cluster, (n,).

    Runs are numbered in order of their first record; occasions are numbered by run, and by time within a run.
    """
    numbers = np.zeros(len(runs), dtype=np.int64)
    number, run, ended = -1, -1, -np.inf
    for place in np.lexsort((started_at, runs)).tolist():
        begun = started_at[place]
        if runs[place] != run:
            run, ended = runs[place], -np.inf
        number += begun - ended > PAUSE_SECONDS
        numbers[place] = number
        ended = max(ended, begun + total_seconds[place])
    return numbers


def members_of(groups: IntArray) -> list[IntArray]:
    """The positions of each group's members, in order of group numbers and, within a group, of positions."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def drifts_of(residuals: FloatArray, occasions: IntArray, weights: FloatArray) -> FloatArray:
    """The drift of each record's occasion in log seconds, (n,). All records are of one model and cluster.

    `residuals` (n,) are e; `weights` (n,) are the weights of the records.
    """
    numbers, indices = np.unique(occasions, return_inverse=True)
    if len(numbers) < 2:
        return np.zeros(len(residuals))
    members = members_of(indices)
    medians = np.array([weighted_median(residuals[places], weights[places]) for places in members])
    variances = DRIFT**2 + ERROR**2 / np.array([weights[places].sum() for places in members])
    level = np.average(medians, weights=1 / variances)
    return np.asarray(((medians - level) * DRIFT**2 / variances)[indices])


def positions_by_family(records: Sequence[RuntimeRecord]) -> dict[tuple[ModelSpec, ClusterSpec], list[int]]:
    """Positions in `records` of each model and cluster, in order of first appearance.

    A model may have been profiled several times; the profile of its first record is used for all its records.
    """
    families: dict[tuple[ModelSpec, ClusterSpec], list[int]] = {}
    first: dict[tuple[str, ClusterSpec], ModelSpec] = {}
    # Hashing a model is slow, and most records share a model object, so look it up by identity first.
    known: dict[tuple[int, int], list[int]] = {}
    for position, record in enumerate(records):
        identity = (id(record.model), id(record.cluster))
        if identity not in known:
            model = first.setdefault((record.model.digest, record.cluster), record.model)
            known[identity] = families.setdefault((model, record.cluster), [])
        known[identity].append(position)
    return families
