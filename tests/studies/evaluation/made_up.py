"""Records that follow a made-up law, and simulators whose right scores on them are known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import final

import numpy as np
import numpy.typing as npt

from autosync.cost import Simulator
from autosync.engine.version import ENGINE
from autosync.search.protocol import Proposal
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from autosync.spec.record import ENGINE_IN_VERSIONS
from autosync.studies.evaluation import Builder, MeasuredCell, measured_cells
from autosync.studies.evaluation.simulators import ClosedForm
from autosync.studies.evaluation.tasks import ABLATIONS
from search_spaces.default import SPACE
from tests import cases
from tests.search.laws import timed, truth

__all__ = ["BUILDERS", "CLUSTERS", "MODELS", "Guessing", "by_law", "cells", "part_of", "records", "records_of"]

Floats = npt.NDArray[np.float64]

MODELS = {"mlp": cases.mlp_model(), "ncf-like": cases.ncf_like_model()}
CLUSTERS = {"three": cases.star_cluster(3), "four": cases.star_cluster(4)}
NOISE = 0.02
PRESENT = {ENGINE_IN_VERSIONS: str(ENGINE)}


def part_of(digest: str) -> str:
    """Half for training, a quarter each for validation and test."""
    return ("train", "validation", "train", "test")[int(digest, 16) % 4]


def records_of(model: str, cluster: str, strategies: int = 60, repeats: int = 10) -> list[RuntimeRecord]:
    """Trials of a cell: steps vary by `NOISE` about the law's, and so do the medians of repeats."""
    space, rng = SPACE.bind(MODELS[model], CLUSTERS[cluster]), random.Random(f"{model} {cluster}")
    different = {each.digest: each for each in (space.sample(rng) for _ in range(3 * strategies))}
    chosen = list(different.values())[:strategies]
    noise = np.random.default_rng([7, *model.encode(), *cluster.encode()])
    found = []
    for number, strategy in enumerate([*chosen, *chosen[:repeats]]):
        record = timed(space, Proposal(strategy, "random"), truth(), number)
        steps = np.array(record.step_seconds) * np.exp(NOISE * noise.standard_normal())
        found.append(
            replace(record, step_seconds=tuple(steps.tolist()), run=f"made-up/{model}@{cluster}", versions=PRESENT)
        )
    return found


def records(strategies: int = 60, repeats: int = 10) -> list[RuntimeRecord]:
    """Records of every model on every cluster."""
    return [
        each for model in MODELS for cluster in CLUSTERS for each in records_of(model, cluster, strategies, repeats)
    ]


@cache
def cells(strategies: int = 60, repeats: int = 10) -> tuple[MeasuredCell, ...]:
    return measured_cells(records(strategies, repeats), part_of)[0]


def by_law(law: Simulator, found: Sequence[RuntimeRecord]) -> list[RuntimeRecord]:
    """The same trials, whose medians are what `law` predicts."""
    retimed = []
    for each in found:
        seconds = np.exp(law.predict(each.model, each.cluster, [each.strategy])[0])
        steps = np.array(each.step_seconds) * seconds / each.median_seconds
        retimed.append(replace(each, step_seconds=tuple(steps.tolist())))
    return retimed


@final
class Guessing:
    """Predicts at random, by its seed and the strategy's digest; says that it is off by a factor of e."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, records: Sequence[RuntimeRecord], validation: Sequence[RuntimeRecord]) -> None:
        """There is nothing to learn."""

    def adjusted(self, records: Sequence[RuntimeRecord]) -> Guessing:
        del records
        return self

    def predict(
        self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]
    ) -> tuple[Floats, Floats | None]:
        del model, cluster
        drawn = [np.random.default_rng([self.seed, int(each.digest, 16)]).uniform(-5, 0) for each in strategies]
        return np.array(drawn, np.float64), np.ones(len(strategies))


def _knowing(seed: int, ablation: str) -> ClosedForm | Guessing:
    """The law itself; without the topology, a guess."""
    return Guessing(seed) if ablation == "without topology" else ClosedForm(truth)


BUILDERS = {
    "knowing": Builder(_knowing, ablations=ABLATIONS),
    "guessing": Builder(lambda seed, _ablation: Guessing(seed), random=True),
}
