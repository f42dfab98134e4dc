"""Records that follow a made-up law, and simulators with known scores on them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import final

import numpy as np

from autosync.cost import Simulator
from autosync.engine.core.versions import ENGINE
from autosync.numeric import FloatArray
from autosync.search.protocol import Proposal
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.spec.record import ENGINE_IN_VERSIONS
from search_spaces.default import SPACE
from studies.evaluation import Builder, MeasuredCell, build_cells
from studies.evaluation.simulators import ClosedForm
from studies.evaluation.tasks import ABLATIONS
from tests import cases
from tests.search.laws import timed, truth

__all__ = ["BUILDERS", "CLUSTERS", "MODELS", "Guessing", "by_law", "cells", "part_of", "records", "records_of"]

MODELS = {"mlp": cases.mlp_model(), "ncf-like": cases.ncf_like_model()}
CLUSTERS = {"three": cases.star_cluster(3), "four": cases.star_cluster(4)}
NOISE = 0.02
PRESENT = {ENGINE_IN_VERSIONS: str(ENGINE)}


def part_of(digest: str) -> str:
    """The part of a strategy: half for training, a quarter for validation, a quarter for test."""
    return ("train", "validation", "train", "test")[int(digest, 16) % 4]


def records_of(model: str, cluster: str, strategies: int = 60, repeats: int = 10) -> list[RuntimeRecord]:
    """Trials of a cell: the steps of a trial, and the medians of repeats, deviate from the law by `NOISE`."""
    space, rng = SPACE.bind(MODELS[model], CLUSTERS[cluster]), random.Random(f"{model} {cluster}")
    different = {strategy.digest: strategy for strategy in (space.sample(rng) for _ in range(3 * strategies))}
    chosen = list(different.values())[:strategies]
    noise = np.random.default_rng([7, *model.encode(), *cluster.encode()])
    records = []
    for number, strategy in enumerate([*chosen, *chosen[:repeats]]):
        record = timed(space, Proposal(strategy, "random"), truth(), number)
        steps = np.array(record.step_seconds) * np.exp(NOISE * noise.standard_normal())
        records.append(
            replace(record, step_seconds=tuple(steps.tolist()), run=f"made-up/{model}@{cluster}", versions=PRESENT)
        )
    return records


def records(strategies: int = 60, repeats: int = 10) -> list[RuntimeRecord]:
    """Records of every model on every cluster."""
    return [
        record for model in MODELS for cluster in CLUSTERS for record in records_of(model, cluster, strategies, repeats)
    ]


@cache
def cells(strategies: int = 60, repeats: int = 10) -> tuple[MeasuredCell, ...]:
    return build_cells(records(strategies, repeats), part_of)[0]


def by_law(law: Simulator, records: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """The same trials with the medians that `law` predicts."""
    retimed = []
    for record in records:
        seconds = np.exp(law.predict(record.model, record.cluster, [record.strategy])[0])
        steps = np.array(record.step_seconds) * seconds / record.median_seconds
        retimed.append(replace(record, step_seconds=tuple(steps.tolist())))
    return retimed


@final
class Guessing:
    """Predicts at random, by its seed and the strategy's digest; states a standard deviation of a factor of e."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, records: Sequence[RuntimeRecord], validation: Sequence[RuntimeRecord]) -> None:
        """Do nothing, because a guess does not learn."""

    def adjust(self, records: Sequence[RuntimeRecord]) -> Guessing:
        del records
        return self

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[FloatArray, FloatArray | None]:
        del model, cluster
        drawn = [np.random.default_rng([self.seed, int(strategy.digest, 16)]).uniform(-5, 0) for strategy in strategies]
        return np.array(drawn, np.float64), np.ones(len(strategies))


def _knowing(seed: int, ablation: str) -> ClosedForm | Guessing:
    """Return the law itself; without the topology, a guess."""
    return Guessing(seed) if ablation == "without topology" else ClosedForm(truth)


BUILDERS = {
    "knowing": Builder(_knowing, ablations=ABLATIONS),
    "guessing": Builder(lambda seed, _ablation: Guessing(seed), random=True),
}
