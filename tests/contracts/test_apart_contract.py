"""Real and paced times are never compared: by a searcher, by a simulator, in the dataset or in a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator, Replay
from autosync.cost.composed import TransferSimulator, weight_of
from autosync.dataset import RecordStore
from autosync.report.comparison import standings_of
from autosync.runs import read_run
from autosync.search.guided.searcher import GuidedSearch
from autosync.search.protocol import Proposal, Searcher
from autosync.search.random_search import RandomSearch
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, DeviceProfile, KeptPace, Pace, RuntimeRecord
from autosync.stats.drift import positions_by_family
from search_spaces.default import SPACE
from tests.cases import mlp_model, star_cluster
from tests.runs.examples import write_finished_run
from tests.search.laws import rough_simulator, timed, truth

MODEL, REAL = mlp_model(), star_cluster(3)


def paced_like(cluster: ClusterSpec, numbers: str = "recorded") -> ClusterSpec:
    nodes = tuple(replace(node, pace=Pace(0.0, 0.1, numbers)) for node in cluster.nodes)
    return replace(cluster, nodes=nodes)


KINDS = {"real": REAL, "recorded": paced_like(REAL), "held": paced_like(REAL, "held")}
"""One cluster, with real passes, or paced with each kind of numbers."""


def records(cluster: ClusterSpec, scale: float = 1.0) -> list[RuntimeRecord]:
    """Records of all baselines, with `scale` times the step times of the tests' law."""
    kept = KeptPace("paced", cluster.numbers, 2, (0.1,), (0.1,), (0.0,), (0.0,)) if cluster.paced else None
    space = SPACE.bind(MODEL, cluster)
    proposals = [Proposal(make(MODEL, cluster), label, purpose="baseline") for label, make in BASELINES.items()]
    found = [timed(space, proposal, truth()) for proposal in proposals]
    return [replace(item, step_seconds=tuple(scale * s for s in item.step_seconds), pace=kept) for item in found]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "maker",
    [
        lambda space, seeds: RandomSearch(space, seeds, seed=1),
        lambda space, seeds: GuidedSearch(space, seeds, 1, rough_simulator()),
    ],
    ids=["random", "guided"],
)
def test_a_searcher_does_not_take_trials_of_another_kind_for_its_own(
    maker: Callable[[SearchSpace, list[object]], Searcher], kind: str
) -> None:
    cluster = KINDS[kind]
    space = SPACE.bind(MODEL, cluster)
    baselines = [(label, make(MODEL, cluster)) for label, make in BASELINES.items()]
    told, quiet = maker(space, baselines), maker(space, baselines)
    told.ask(2), quiet.ask(2)
    for foreign in KINDS.keys() - {kind}:
        for record in records(KINDS[foreign], 0.001):
            told.tell(record)
    assert told.state()["records"] == quiet.state()["records"] == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [AnalyticSimulator, Replay], ids=["closed form", "replay"])
def test_what_a_simulator_learns_for_one_kind_is_not_moved_by_earlier_records_of_another(
    make: Callable[[], AnalyticSimulator | Replay], kind: str
) -> None:
    cluster, own = KINDS[kind], records(KINDS[kind])
    others = [record for foreign in KINDS if foreign != kind for record in records(KINDS[foreign], 20.0)]
    strategies = [record.strategy for record in own]
    alone, beside = TransferSimulator(make(), [], MODEL, cluster), TransferSimulator(make(), others, MODEL, cluster)
    for run in (alone, beside):
        run.fit(own)
    np.testing.assert_array_equal(beside.predict(MODEL, cluster, strategies), alone.predict(MODEL, cluster, strategies))


def test_each_kind_is_a_family_of_its_own_in_calibration() -> None:
    families = positions_by_family([record for cluster in KINDS.values() for record in records(cluster)])
    assert [cluster for _, cluster in families] == list(KINDS.values())
    assert len({cluster.digest for _, cluster in families}) == 3


def test_the_dataset_gives_the_trials_of_one_kind_without_those_of_another(tmp_path: Path) -> None:
    store = RecordStore.create(tmp_path)
    for cluster in KINDS.values():
        store.append(records(cluster)[0])
    for kind, cluster in KINDS.items():
        (found,) = store.read(cluster_digest=cluster.digest)
        assert (found.time, found.numbers) == ("real" if kind == "real" else "paced", kind)
    table = store.to_pandas()
    assert sorted(zip(table["time"], table["numbers"], strict=True)) == [
        ("paced", "held"),
        ("paced", "recorded"),
        ("real", "real"),
    ]


def test_a_report_of_runs_of_both_kinds_says_that_their_times_do_not_compare(tmp_path: Path) -> None:
    directory = tmp_path / "runs" / "one"
    write_finished_run(directory)
    real = read_run(directory)
    nodes = [node | {"pace": Pace(0.0, 0.1).to_json()} for node in real.document["cluster"]["nodes"]]
    paced = replace(real, document={**real.document, "cluster": {**real.document["cluster"], "nodes": nodes}})
    assert paced.cluster.paced
    assert not paced.here
    assert standings_of([real, real]).is_of_one_cell
    assert standings_of([real, paced]).differ_in == "clusters"


def test_runs_by_another_devices_profile_are_of_another_model(tmp_path: Path) -> None:
    directory = tmp_path / "runs" / "one"
    write_finished_run(directory)
    run = read_run(directory)
    assert run.model is not None
    ready = {variable.name: 0.02 for variable in run.model.variables}
    device = DeviceProfile("H100", {"driver": "570"}, run.model.batch_size, "float32", "2026-11-20", 0.01, 0.02, ready)
    by_device = replace(run.model, device_profile=device)
    records = tuple(replace(record, model=by_device) for record in run.records)
    other = replace(run, document={**run.document, "model_digest": by_device.digest}, records=records)
    assert standings_of([run, other]).differ_in == "models"
    assert weight_of(by_device.digest == run.model.digest, same_cluster=True) < weight_of(True, True)
