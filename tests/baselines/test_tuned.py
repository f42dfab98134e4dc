"""The grid of all-reduces that an engineer would time."""

from __future__ import annotations

import pytest

from autosync.baselines import BASELINES
from autosync.baselines.tuned import algorithms_to_try, all_reduce_grid
from autosync.spec import AllReduce, strategy_faults
from tests import cases

CLUSTERS = {"one replica a node": cases.star_cluster, "several a node": cases.gpu_cluster}


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("model", [cases.mlp_model, cases.ncf_like_model])
def test_all_of_the_grid_differ_fit_and_reduce_everything(model, cluster):
    model, cluster = model(), CLUSTERS[cluster]()
    grid = all_reduce_grid(model, cluster)
    assert len({strategy.digest for strategy in grid.values()}) == len(grid)
    for strategy in grid.values():
        assert not any(strategy_faults(strategy, model, cluster))
        assert all(isinstance(shard, AllReduce) for variable in strategy.variables for shard in variable.shards)


def test_it_holds_a_bucket_of_all_and_a_bucket_a_variable_by_every_algorithm_that_differs():
    model, cluster = cases.mlp_model(), cases.star_cluster()
    grid = all_reduce_grid(model, cluster)
    groups = {name: {shard.group for variable in s.variables for shard in variable.shards} for name, s in grid.items()}
    assert {len(numbers) for numbers in groups.values()} >= {1, len(model.variables)}
    assert grid["each variable by ring"].digest == BASELINES["all_reduce_per_variable"](model, cluster).digest
    assert {name.rpartition(" ")[2] for name in grid} == {"ring", "tree", "halving_doubling", "blueconnect"}


@pytest.mark.parametrize(("cluster", "offered"), [(cases.gpu_cluster(), True), (cases.star_cluster(), False)])
def test_an_engineer_tries_nccl_on_gpus(cluster, offered):
    grid = all_reduce_grid(cases.mlp_model(), cluster, algorithms_to_try(cluster))
    assert ("each variable by collective" in grid) == offered
    assert set(all_reduce_grid(cases.mlp_model(), cluster)) <= set(grid)
