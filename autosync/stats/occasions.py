"""Occasions: what was timed in one go. A machine's mood changes from one to the next, for all strategies about alike.

Over 60 visits of the dataset's cells, of about 20 trials each, steps took 7 % more or less (standard deviation) from
one visit to another, as much as a simulator that has learned errs by within one; with that taken off, a tenth of the
strategies timed twice differ by over 11 %, before by over 19 %. So times of different occasions are not compared before
what is common to each has been taken off.

Notation: n records, e (n,) what they took over what was expected, in log seconds. Records of one model, cluster and
occasion o share a drift d_o ~ N(0, DRIFT^2) about the level of their model and cluster; each has an error of its own
~ N(0, ERROR^2). With m_o the median of e on o and v_o = DRIFT^2 + ERROR^2 / n_o, the level is the mean of m_o weighted
by 1 / v_o, and d_o is expected to be (m_o - level) DRIFT^2 / v_o.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PAUSE_SECONDS = 1200.0
"""The longest pause in an occasion, in seconds; a few of an occasion's records, drawn at random, still are of one."""
DRIFT, ERROR = 0.07, 0.08


@final
@dataclass(frozen=True, eq=False)
class Timed:
    """What a fit learns from: `records` that hold a step time, and their `weights` over 0, float64 (n,)."""

    records: list[RuntimeRecord]
    weights: FloatArray

    @classmethod
    def of(cls, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> Timed:
        """Those of `records` that hold a step time and have a weight over 0; weights are 1 unless given."""
        given = np.ones(len(records)) if weights is None else np.asarray(weights, dtype=np.float64)
        kept = [place for place, record in enumerate(records) if record.timed and given[place] > 0]
        return cls(list(records), given)._at(kept)

    def heaviest(self, most: int) -> Timed:
        """The records of the largest weights, at most so many, as the function `heaviest` chooses them."""
        return self._at(heaviest(self.weights, most))

    @cached_property
    def log_seconds(self) -> FloatArray:
        """Logarithms of the records' median step seconds, (n,)."""
        return np.log(np.array([record.median_seconds for record in self.records], dtype=np.float64))

    @cached_property
    def occasions(self) -> IntArray:
        return occasions_of(self.records)

    def families(self) -> Iterator[tuple[ModelSpec, ClusterSpec, IntArray, list[Strategy]]]:
        """Each model and cluster, with the places (k,) of its records and their strategies."""
        for (model, cluster), places in positions_by_family(self.records).items():
            yield model, cluster, np.array(places), [self.records[place].strategy for place in places]

    def _at(self, places: Sequence[int]) -> Timed:
        return Timed([self.records[place] for place in places], self.weights[np.array(places, dtype=np.int64)])


def heaviest(weights: FloatArray, most: int) -> list[int]:
    """Places of the largest weights, at most so many, in order; of equal ones, where not all fit, evenly spaced."""
    chosen: list[int] = []
    for weight in np.unique(weights)[::-1]:
        alike, room = np.flatnonzero(weights == weight).tolist(), most - len(chosen)
        if len(alike) > room:
            alike = [alike[index * len(alike) // room] for index in range(room)]
        chosen += alike
    return sorted(chosen)


def weighted_median(values: FloatArray, weights: FloatArray) -> float:
    """The value with half of the weight on either side, between two values where it falls there."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(weights.sum() / 2, reached, values[order]))


def occasions_of(records: Sequence[RuntimeRecord]) -> IntArray:
    """The number of each record's occasion, (n,): of one run's trials of one model and cluster, without a pause."""
    runs: dict[tuple[str, str, str], int] = {}
    of = [(record.model.digest, record.cluster.digest, record.run) for record in records]
    return occasions_among(
        np.array([runs.setdefault(each, len(runs)) for each in of], dtype=np.int64),
        np.array([record.started_at for record in records], dtype=np.float64),
        np.array([record.total_seconds for record in records], dtype=np.float64),
    )


def occasions_among(runs: IntArray, started_at: FloatArray, total_seconds: FloatArray) -> IntArray:
    """`occasions_of` records by the number of their run, which is of one model and cluster; runs are numbered in order
    of their first record, and so are occasions within a run by time, (n,)."""
    found = np.zeros(len(runs), dtype=np.int64)
    number, run, ended = -1, -1, -np.inf
    for place in np.lexsort((started_at, runs)).tolist():
        begun = started_at[place]
        if runs[place] != run:
            run, ended = runs[place], -np.inf
        number += begun - ended > PAUSE_SECONDS
        found[place] = number
        ended = max(ended, begun + total_seconds[place])
    return found


def members_of(groups: IntArray) -> list[IntArray]:
    """The places of each group, in order of the groups' numbers and, within one, of the places."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def drifts_of(residuals: FloatArray, occasions: IntArray, weights: FloatArray) -> FloatArray:
    """How far each record's occasion drifted from the others, in log seconds, (n,). All are of one model and cluster.

    `residuals` are e, and `weights`, (n,) too, say how much each record counts.
    """
    numbers, own = np.unique(occasions, return_inverse=True)
    if len(numbers) < 2:
        return np.zeros(len(residuals))
    members = members_of(own)
    medians = np.array([weighted_median(residuals[places], weights[places]) for places in members])
    variances = DRIFT**2 + ERROR**2 / np.array([weights[places].sum() for places in members])
    level = np.average(medians, weights=1 / variances)
    return np.asarray(((medians - level) * DRIFT**2 / variances)[own])


def positions_by_family(records: Sequence[RuntimeRecord]) -> dict[tuple[ModelSpec, ClusterSpec], list[int]]:
    """Positions in `records` of each model and cluster, in order of first appearance.

    One model may have been profiled several times; its first record's profile then stands for all.
    """
    families: dict[tuple[ModelSpec, ClusterSpec], list[int]] = {}
    first: dict[tuple[str, ClusterSpec], ModelSpec] = {}
    # Hashing a model takes long, and most records share theirs: look it up by identity first.
    known: dict[tuple[int, int], list[int]] = {}
    for position, record in enumerate(records):
        identity = (id(record.model), id(record.cluster))
        if identity not in known:
            model = first.setdefault((record.model.digest, record.cluster), record.model)
            known[identity] = families.setdefault((model, record.cluster), [])
        known[identity].append(position)
    return families
