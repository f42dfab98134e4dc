"""A small dataset whose times follow a made-up law: two cells, repeats, and a strategy that failed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autosync.baselines import BASELINES, different_strategies
from autosync.dataset import RecordStore
from autosync.search.protocol import Proposal
from autosync.spec import ClusterSpec, RuntimeRecord
from autosync.tune.recorded.cells import RecordedCell, cells_of
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
        strategy: None
        for strategy in (space.sample(rng) for _ in range(3 * SEARCHED))
        if strategy not in baselines.values()
    }
    *chosen, broken = list(samples)[: SEARCHED + 1]
    drawn = [Proposal(strategy, "random") for strategy in chosen]
    proposals = [*(Proposal(strategy, label, purpose="baseline") for label, strategy in baselines.items()), *drawn]
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
        step_seconds=tuple(drift * seconds for seconds in record.step_seconds),
    )


def cell(name: str = "two") -> RecordedCell:
    (searchable,), _ = cells_of(records_of(name))
    return searchable


def write_dataset(folder: Path) -> Path:
    store = RecordStore.create(folder / "records")
    for name in CLUSTERS:
        for record in records_of(name):
            store.append(record)
    store.compact()
    return folder
