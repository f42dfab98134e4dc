"""The places of shards in their variables, and the order in which shards are synchronized."""

from __future__ import annotations

from autosync.layout.fusion import Layout, as_ready, bundles
from autosync.layout.shards import Shard, Slice
from autosync.spec import AllReduce, ModelSpec, ParameterServer, Partition, Strategy, Variable, VariableStrategy
from tests.cases import mlp_model, prime_model, scalar_model


def _strategy(model: ModelSpec, **decided: VariableStrategy) -> Strategy:
    variables = (
        decided.get(variable.name.replace("/", "_"), VariableStrategy(variable.name, (AllReduce(0),)))
        for variable in model.variables
    )
    return Strategy(("node0/cpu:0",), tuple(variables))


def test_a_prime_number_of_rows_is_cut_into_uneven_shards_that_cover_it():
    model = prime_model()
    servers = tuple(ParameterServer(f"node0/cpu:{index}") for index in range(4))
    cut = VariableStrategy("user/embedding", servers, Partition(0, 4))
    shards = Layout.of(_strategy(model, user_embedding=cut), model).of_variables[0]
    assert [shard.slice.size for shard in shards] == [34_624, 34_623, 34_623, 34_623]
    assert [shard.slice.start for shard in shards] == [0, 34_624, 69_247, 103_870]
    assert shards[-1].slice.start + shards[-1].slice.size == 138_493
    assert [shard.elements for shard in shards] == [shard.slice.size * 16 for shard in shards]
    assert [shard.shape for shard in shards][:2] == [(34_624, 16), (34_623, 16)]


def test_a_cut_along_the_last_axis_keeps_the_rows_whole():
    model = prime_model()
    cut = VariableStrategy("dense/kernel", (AllReduce(0),) * 3, Partition(1, 3))
    shards = Layout.of(_strategy(model, dense_kernel=cut), model).of_variables[1]
    assert [shard.shape for shard in shards] == [(16, 2640), (16, 2640), (16, 2639)]
    assert [shard.slice.start for shard in shards] == [0, 2640, 5280]


def test_a_scalar_is_one_shard_of_one_element():
    model = scalar_model()
    for (shard,) in Layout.of(_strategy(model), model).of_variables:
        assert (shard.shape, shard.elements) == ((), 1)


def test_buckets_hold_shards_by_readiness_and_start_in_the_order_they_fill():
    model = mlp_model((4, 5, 6, 7))
    names = [variable.name for variable in model.variables]  # ready from last to first
    groups = dict(zip(names, [0, 1, 0, 1, 2, 2], strict=True))
    strategy = Strategy(("node0/cpu:0",), tuple(VariableStrategy(name, (AllReduce(groups[name]),)) for name in names))
    layout = Layout.of(strategy, model)
    filled = as_ready(layout.buckets)
    assert [[shard.variable.name for shard in bucket] for bucket in filled] == [
        ["dense_2/bias", "dense_2/kernel"],
        ["dense_1/bias", "dense_0/bias"],
        ["dense_1/kernel", "dense_0/kernel"],
    ]
    assert layout.parcels == ()
    assert not layout.alone


def test_a_sparse_all_reduce_is_in_no_bucket_and_servers_come_by_readiness():
    model = prime_model()
    onto = VariableStrategy("dense/kernel", (ParameterServer("node0/cpu:0"),) * 2, Partition(0, 2))
    bias = VariableStrategy("dense/bias", (ParameterServer("node0/cpu:0"),))
    strategy = _strategy(model, dense_kernel=onto, dense_bias=bias)
    layout = Layout.of(strategy, model)
    assert layout.buckets == ()
    assert [shard.variable.name for shard in layout.alone] == ["user/embedding"]
    assert [[(shard.variable.name, shard.slice.index) for shard in parcel] for parcel in layout.parcels] == [
        [("dense/bias", 0), ("dense/kernel", 0)],
        [("dense/kernel", 1)],
    ]


def _bucket(shape: tuple[int, ...], ready_order: int, dtype: str = "float32") -> tuple[Shard, ...]:
    variable = Variable(f"variable_{ready_order}", shape, dtype, ready_order)
    return (Shard(Slice(variable, ready_order, 0, 0, 0, shape[0]), AllReduce(ready_order)),)


def test_small_buckets_of_one_dtype_are_bundled_as_they_become_ready_and_large_ones_are_left_alone():
    kilobytes = [700, 1024, 300, 100, 5000, 8]
    filled = [_bucket((size * 256,), order) for order, size in enumerate(kilobytes)]
    assert bundles(filled) == ((1,), (0, 2, 3), (4,), (5,))
    assert bundles([]) == ()


def test_buckets_of_different_dtypes_are_in_different_bundles():
    filled = [_bucket((4,), order, dtype) for order, dtype in enumerate(("float32", "float64", "float32"))]
    assert bundles(filled) == ((1,), (0, 2))
