"""A small dataset with times that a made-up law gives: two cells, repeats, and a strategy that failed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autosync.baselines import BASELINES, different_strategies
from autosync.dataset import RecordStore
from autosync.search.protocol import Proposal
from autosync.spec import ClusterSpec, RuntimeRecord
from autosync.tune.recorded.cells import RecordedCell, recorded_cells
from search_spaces.default import SPACE
from tests.cases import mlp_model, star_cluster
from tests.search.laws import timed, truth

__all__ = ["MODEL", "REPEATED", "cell", "records_of", "write_dataset"]

MODEL = mlp_model()
CLUSTERS = {"two": star_cluster(2), "three": star_cluster(3)}
SEARCHED = 20
REPEATED = 4


def records_of(name: str) -> Iterator[RuntimeRecord]:
    """Records of the cell on cluster `name`: baselines, sampled strategies, repeats of some; one has failed."""
    cluster = CLUSTERS[name]
    space, rng = SPACE.bind(MODEL, cluster), random.Random(name)
    baselines = different_strategies(BASELINES, MODEL, cluster)
    samples = {
        each: None for each in (space.sample(rng) for _ in range(3 * SEARCHED)) if each not in baselines.values()
    }
    *chosen, broken = list(samples)[: SEARCHED + 1]
    drawn = [Proposal(each, "random") for each in chosen]
    proposals = [*(Proposal(each, label, purpose="baseline") for label, each in baselines.items()), *drawn]
    for number, proposal in enumerate(proposals):
        yield _record(name, cluster, proposal, number, proposal.purpose)
    for number, proposal in enumerate(drawn[:REPEATED], len(proposals)):
        yield _record(name, cluster, proposal, number, "remeasure")
    failed = _record(name, cluster, Proposal(broken, "random"), 99, "search")
    yield replace(failed, outcome="failed", reason="it went wrong", step_seconds=())


def _record(name: str, cluster: ClusterSpec, proposal: Proposal, number: int, purpose: str) -> RuntimeRecord:
    record = timed(SPACE.bind(MODEL, cluster), proposal, truth(), number, noise=0.01)
    drift = 1 + 0.02 * (number % 3)
    return replace(
        record,
        purpose=purpose,
        run=f"example/{MODEL.name}@{name}",
        total_seconds=2.0 + number,
        step_seconds=tuple(drift * each for each in record.step_seconds),
    )


def cell(name: str = "two") -> RecordedCell:
    (found,), _ = recorded_cells(records_of(name))
    return found


def write_dataset(folder: Path) -> Path:
    store = RecordStore.create(folder / "records")
    for name in CLUSTERS:
        for record in records_of(name):
            store.append(record)
    store.compact()
    return folder
