"""The cells of the proof, their order and their bounds."""

from __future__ import annotations

from collections import Counter

import pytest

from autosync.errors import BenchError
from autosync.stats.cells import CellName
from studies.proof.bounds import bounds_of, text_of
from studies.proof.cells import CLUSTERS, FIRST, MODELS, ProofJob, all_jobs, cluster_named, jobs_like
from tests.cases import mlp_model


def test_there_are_forty_cells_and_the_first_twelve_have_every_seed() -> None:
    jobs = all_jobs()
    assert len({job.cell for job in jobs}) == 40 == len(MODELS) * len(CLUSTERS)
    assert tuple(job.cell for job in jobs[:12]) == FIRST
    assert len(jobs) == len(set(jobs)) == 40 + 2 * 12
    assert {job.cell for job in jobs if job.seed} == set(FIRST)


def test_the_first_cells_have_every_cluster_and_every_model_at_least_twice() -> None:
    assert {cell.cluster for cell in FIRST} == set(CLUSTERS)
    models = Counter(cell.model for cell in FIRST)
    assert set(models) == set(MODELS)
    assert min(models.values()) == 2


def test_all_clusters_are_paced_and_one_has_eight_ranks_on_four_nodes() -> None:
    clusters = [cluster_named(name) for name in CLUSTERS]
    assert {cluster.kind for cluster in clusters} == {"paced-recorded"}
    ranks = [(len(cluster.replica_devices), len(cluster.nodes)) for cluster in clusters]
    assert ranks.count((8, 4)) == 1
    assert max(count for count, _ in ranks) == 8


def test_a_pattern_chooses_cells_or_cells_with_a_seed() -> None:
    assert {job.cell.cluster for job in jobs_like("*@*slow_*")} == {
        "paced_slow_two_racks",
        "paced_slow_uniform",
        "paced_slow_pairs",
    }
    assert jobs_like("bert-mini@paced_two_racks-1") == [ProofJob(CellName("bert-mini", "paced_two_racks"), 1)]
    with pytest.raises(BenchError, match=r"--cells needs a pattern of cells .* but none matches 'bert';"):
        jobs_like("bert")


def test_the_bounds_of_all_cells_are_stated_with_a_barrier_and_without() -> None:
    bounds = bounds_of({"mlp": mlp_model()})
    assert [bound.cell.cluster for bound in bounds] == list(CLUSTERS)
    assert all(0 < bound.without.seconds <= bound.with_barrier.seconds for bound in bounds)
    assert all(bound.without.seconds <= bound.baseline_seconds <= bound.default_seconds for bound in bounds)
    text = text_of(bounds)
    assert text.count("| mlp |") == len(CLUSTERS)
    assert f"of {len(CLUSTERS)} cells allow 1.3 over the best baseline" in text
