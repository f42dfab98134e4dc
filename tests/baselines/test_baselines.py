"""The baselines are valid on every model and cluster, and do what their docstrings state."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from autosync.baselines import BASELINES
from autosync.spec import (
    MOST_SHARDS,
    AllReduce,
    ClusterSpec,
    ModelSpec,
    ParameterServer,
    Strategy,
    Variable,
    canonical_strategy,
    shard_sizes,
    strategy_faults,
)
from tests import cases

MODELS = [
    cases.mlp_model(),
    cases.bert_like_model(),
    cases.ncf_like_model(),
    cases.prime_model(),
    cases.scalar_model(),
    cases.mixed_precision_model(),
]
CLUSTERS = {
    "one worker": cases.local_cluster(1),
    "one node": cases.local_cluster(4),
    "four nodes": cases.star_cluster(4),
    "uneven": cases.uneven_cluster(),
    "gpus": cases.gpu_cluster(),
}
MEGABYTE = 1 << 20


def dense_model(*megabytes: float) -> ModelSpec:
    """Dense matrices of 64 rows with these sizes in megabytes, whose gradients are ready in this order."""
    variables = tuple(
        Variable(f"v{index}", (64, int(size * MEGABYTE / 64 / 4)), "float32", index)
        for index, size in enumerate(megabytes)
    )
    assert [variable.bytes for variable in variables] == [int(size * MEGABYTE) for size in megabytes]
    return ModelSpec("dense", 1, "SGD", 0, variables)


def groups(strategy: Strategy) -> dict[str, list[int]]:
    """Groups of each variable's shards."""
    return {
        decision.variable: [shard.group for shard in decision.shards if isinstance(shard, AllReduce)]
        for decision in strategy.variables
    }


def devices(strategy: Strategy) -> dict[str, list[str]]:
    """Servers of each variable's shards."""
    return {
        decision.variable: [shard.device for shard in decision.shards if isinstance(shard, ParameterServer)]
        for decision in strategy.variables
    }


def server_bytes(strategy: Strategy, model: ModelSpec) -> Counter[str]:
    loads: Counter[str] = Counter()
    for decision, index, shard in strategy.shards():
        variable = model.by_name[decision.variable]
        rows = variable.shape[decision.partition.axis] if decision.partition else 1
        part = shard_sizes(rows, decision.partition.shards)[index] if decision.partition else 1
        assert isinstance(shard, ParameterServer)
        loads[shard.device] += variable.bytes * part // rows
    return loads


def shards_of(strategy: Strategy) -> dict[str, int]:
    return {decision.variable: len(decision.shards) for decision in strategy.variables}


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize(("model", "where"), product(MODELS, CLUSTERS), ids=lambda case: getattr(case, "name", case))
def test_a_baseline_fits_every_model_and_cluster(name: str, model: ModelSpec, where: str):
    cluster = CLUSTERS[where]
    strategy = BASELINES[name](model, cluster)
    assert list(strategy_faults(strategy, model, cluster)) == []
    assert strategy.replicas == tuple(map(str, cluster.replica_devices))
    assert [variable.variable for variable in strategy.variables] == [decision.name for decision in model.variables]
    assert canonical_strategy(strategy, cluster) is strategy
    assert BASELINES[name](model, cluster) == strategy


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_says_where_it_comes_from(name: str):
    assert BASELINES[name].__name__ == name
    assert any(source in BASELINES[name].__doc__ for source in ("AutoDist", "PyTorch", "Horovod", "OSDI", "EuroSys"))


def test_the_baselines_have_a_fixed_order():
    assert list(BASELINES) == [
        "parameter_server",
        "balanced_parameter_server",
        "partitioned_parameter_server",
        "uneven_parameter_server",
        "all_reduce_25mb",
        "all_reduce_64mb",
        "all_reduce_per_variable",
        "partitioned_all_reduce",
        "parallax",
        "byteps",
        "poseidon",
    ]


def test_all_but_one_differ_for_a_bert_like_model():
    model, cluster = cases.bert_like_model(), cases.local_cluster()
    assert len({baseline(model, cluster).digest for baseline in BASELINES.values()}) == len(BASELINES) - 1
    same = (BASELINES[name](model, cluster) for name in ("poseidon", "balanced_parameter_server"))
    assert len(set(same)) == 1, "no matrix of it is known to have factors"


def test_no_baseline_changes_the_statistics_of_training():
    model, cluster = factored(32), cases.star_cluster()
    assert not any(baseline(model, cluster).changes_statistics for baseline in BASELINES.values())


def factored(factor_rows: int) -> ModelSpec:
    """A big and a small matrix with `factor_rows` rows of factors, and a bias."""
    variables = (
        Variable("big", (1000, 600), "float32", 2, factor_rows=factor_rows),
        Variable("small", (60, 10), "float32", 1, factor_rows=factor_rows),
        Variable("bias", (600,), "float32", 0),
    )
    return ModelSpec("factored", factor_rows, "SGD", 0, variables)


@pytest.mark.parametrize(
    ("factor_rows", "broadcast"),
    [(2, {"big", "small"}), (4, {"big", "small"}), (5, {"big"}), (187, {"big"}), (188, set())],
)
def test_poseidon_broadcasts_factors_where_the_papers_equation_says_so(factor_rows: int, broadcast: set[str]):
    # With S = W = 4: K (M + N) <= M N / 2, so up to K = 187.5 for the big matrix and 4.3 for the small one.
    strategy = BASELINES["poseidon"](factored(factor_rows), cases.star_cluster(4))
    assert {name for name, used in groups(strategy).items() if used} == broadcast
    assert {decision.variable for decision, _, shard in strategy.shards() if shard.compressor} == broadcast


@pytest.mark.parametrize("where", CLUSTERS)
def test_the_parameter_server_is_one(where: str):
    strategy = BASELINES["parameter_server"](cases.bert_like_model(), CLUSTERS[where])
    assert {device for names in devices(strategy).values() for device in names} == {"node0/cpu:0"}


def test_balanced_servers_differ_by_less_than_the_biggest_variable():
    model = cases.bert_like_model()
    loads = server_bytes(BASELINES["balanced_parameter_server"](model, cases.star_cluster()), model)
    assert len(loads) == 4
    assert max(loads.values()) - min(loads.values()) <= max(variable.bytes for variable in model.variables)


def test_partitioned_servers_are_even():
    model = cases.bert_like_model()
    loads = server_bytes(BASELINES["partitioned_parameter_server"](model, cases.star_cluster()), model)
    assert max(loads.values()) < 1.1 * min(loads.values())


def test_a_prime_number_of_rows_is_cut_by_servers():
    strategy = BASELINES["partitioned_parameter_server"](cases.prime_model(), cases.star_cluster())
    assert shards_of(strategy) == {"user/embedding": 4, "dense/kernel": 4, "dense/bias": 1}
    assert sorted(devices(strategy)["user/embedding"]) == [f"node{index}/cpu:0" for index in range(4)]


def test_small_variables_and_lone_servers_cut_nothing():
    strategy = BASELINES["partitioned_parameter_server"](cases.mlp_model(), cases.local_cluster(4))
    assert shards_of(strategy)["dense_0/kernel"] == 1, "64 KB"
    assert shards_of(strategy)["dense_1/kernel"] == 4, "256 KB"
    alone = BASELINES["partitioned_parameter_server"](cases.prime_model(), cases.local_cluster(1))
    assert set(shards_of(alone).values()) == {1}


@pytest.mark.parametrize(("rows", "shards"), [(30522, 4), (1024, 3), (1025, 2), (60, 7), (840, 4), (2, 2), (1, 1)])
def test_uneven_shards_do_not_divide_the_rows_where_few_enough_can(rows: int, shards: int):
    model = ModelSpec("m", 1, "SGD", 0, (Variable("v", (rows, 300_000), "float32", 0),))
    strategy = BASELINES["uneven_parameter_server"](model, cases.star_cluster(4))
    assert shards_of(strategy) == {"v": shards}


def test_pytorchs_first_bucket_closes_at_1_mb_and_the_next_at_25():
    model = dense_model(0.5, 0.25, 0.5, 20, 4, 2, 0.5)
    strategy = BASELINES["all_reduce_25mb"](model, cases.local_cluster())
    assert groups(strategy) == {"v0": [0], "v1": [0], "v2": [0], "v3": [1], "v4": [1], "v5": [1], "v6": [2]}


def test_horovods_buckets_never_go_over_64_mb():
    model = dense_model(40, 24, 1, 63, 1, 100, 1)
    strategy = BASELINES["all_reduce_64mb"](model, cases.local_cluster())
    assert groups(strategy) == {"v0": [0], "v1": [0], "v2": [1], "v3": [1], "v4": [2], "v5": [3], "v6": [4]}


def test_buckets_follow_ready_order_not_graph_order():
    variables = tuple(Variable(f"v{index}", (262_144,), "float32", 2 - index) for index in range(3))
    model = ModelSpec("m", 1, "SGD", 0, variables)
    assert groups(BASELINES["all_reduce_25mb"](model, cases.local_cluster())) == {"v0": [0], "v1": [0], "v2": [1]}


@pytest.mark.parametrize("name", ["all_reduce_25mb", "all_reduce_64mb", "partitioned_all_reduce", "parallax"])
def test_each_dtype_fills_buckets_of_its_own(name: str):
    strategy = BASELINES[name](cases.mixed_precision_model(), cases.local_cluster())
    assert groups(strategy) == {f"layer_{index}/kernel": [index % 2] for index in range(6)}


@pytest.mark.parametrize(
    "name", ["all_reduce_25mb", "all_reduce_64mb", "all_reduce_per_variable", "partitioned_all_reduce"]
)
def test_a_sparse_variable_shares_its_group_with_no_other(name: str):
    model = cases.ncf_like_model()
    by_variable = groups(BASELINES[name](model, cases.local_cluster()))
    for variable in model.variables:
        if variable.sparse:
            others = [group for name, used in by_variable.items() if name != variable.name for group in used]
            assert not set(by_variable[variable.name]) & set(others)


def test_all_reduce_per_variable_has_a_group_a_variable():
    by_variable = groups(BASELINES["all_reduce_per_variable"](cases.bert_like_model(), cases.local_cluster()))
    assert sorted(group for used in by_variable.values() for group in used) == list(range(75))


def test_partitioned_all_reduce_puts_128_shards_in_a_bucket():
    model = dense_model(*[1.0] * 40)
    strategy = BASELINES["partitioned_all_reduce"](model, cases.star_cluster())
    assert set(shards_of(strategy).values()) == {4}
    assert Counter(group for used in groups(strategy).values() for group in used) == {0: 128, 1: 32}


def test_parallax_serves_sparse_variables_and_reduces_dense_ones():
    model = cases.ncf_like_model()
    strategy = BASELINES["parallax"](model, cases.star_cluster())
    for decision in strategy.variables:
        kind = ParameterServer if model.by_name[decision.variable].sparse else AllReduce
        assert [type(shard) for shard in decision.shards] == [kind]
    assert len({device for names in devices(strategy).values() for device in names}) == 4


def test_parallax_without_sparse_variables_is_horovod():
    model, cluster = cases.bert_like_model(sparse=False), cases.local_cluster()
    assert BASELINES["parallax"](model, cluster) == BASELINES["all_reduce_64mb"](model, cluster)


def test_byteps_cuts_parts_of_4_mb_and_evens_out_the_servers():
    model = dense_model(62.5, 3, 8)
    strategy = BASELINES["byteps"](model, cases.star_cluster())
    assert shards_of(strategy) == {"v0": 16, "v1": 1, "v2": 3}
    loads = server_bytes(strategy, model)
    assert max(loads.values()) - min(loads.values()) <= 4_096_000


def test_byteps_cuts_a_giant_into_as_many_parts_as_there_may_be():
    model = ModelSpec("m", 1, "SGD", 0, (Variable("v", (800_000, 2500), "float32", 0),))
    assert shards_of(BASELINES["byteps"](model, cases.star_cluster())) == {"v": MOST_SHARDS}


def test_byteps_cuts_a_convolution_along_its_longest_axis():
    model = ModelSpec("m", 1, "SGD", 0, (Variable("v", (3, 3, 512, 1024), "float32", 0),))
    (decision,) = BASELINES["byteps"](model, cases.star_cluster()).variables
    assert decision.partition is not None
    assert (decision.partition.axis, decision.partition.shards) == (3, 5)


@pytest.mark.parametrize(
    ("cluster", "copied"),
    [
        (cases.gpu_cluster(), True),
        (cases.star_cluster(2, workers=2), True),
        (cases.star_cluster(4), False),
        (cases.local_cluster(4), False),
    ],
    ids=["gpus", "two workers a node", "one worker a node", "one node"],
)
def test_byteps_copies_locally_where_replicas_share_a_node(cluster: ClusterSpec, copied: bool):
    model = cases.bert_like_model()
    strategy = BASELINES["byteps"](model, cluster)
    for decision, _, shard in strategy.shards():
        assert isinstance(shard, ParameterServer)
        assert shard.local_copy == (copied and not model.by_name[decision.variable].sparse)
