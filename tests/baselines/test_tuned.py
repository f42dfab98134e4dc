"""The grid of an all-reduce that is tuned by hand."""

from __future__ import annotations

import pytest

from autosync.baselines import BASELINES
from autosync.baselines.tuned import all_reduce_grid, tried_by_hand
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
        assert all(isinstance(each, AllReduce) for variable in strategy.variables for each in variable.shards)


def test_it_holds_a_bucket_of_all_and_a_bucket_a_variable_by_every_algorithm_that_differs():
    model, cluster = cases.mlp_model(), cases.star_cluster()
    grid = all_reduce_grid(model, cluster)
    groups = {name: {each.group for variable in s.variables for each in variable.shards} for name, s in grid.items()}
    assert {len(each) for each in groups.values()} >= {1, len(model.variables)}
    assert grid["each variable by ring"].digest == BASELINES["all_reduce_per_variable"](model, cluster).digest
    assert {name.rpartition(" ")[2] for name in grid} == {"ring", "tree", "halving_doubling", "blueconnect"}


@pytest.mark.parametrize(("cluster", "offered"), [(cases.gpu_cluster(), True), (cases.star_cluster(), False)])
def test_an_engineer_tries_nccl_on_gpus(cluster, offered):
    grid = all_reduce_grid(cases.mlp_model(), cluster, tried_by_hand(cluster))
    assert ("each variable by collective" in grid) == offered
    assert set(all_reduce_grid(cases.mlp_model(), cluster)) <= set(grid)
