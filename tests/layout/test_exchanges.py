"""Traffic of every algorithm and compressor equals all messages counted one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.cost import traffic
from autosync.spec import (
    ALGORITHMS,
    AllReduce,
    Cast,
    ClusterSpec,
    Compressor,
    ModelSpec,
    ParameterServer,
    Partition,
    PowerSGD,
    Strategy,
    SufficientFactors,
    Synchronizer,
    TopK,
    Variable,
    VariableStrategy,
    check_strategy,
)
from tests import cases
from tests.cost.cases import link_bytes, link_messages
from tests.layout.messages import link_bytes_of_messages

CLUSTERS = {
    "one replica": cases.local_cluster(1),
    "two nodes": cases.star_cluster(2),
    "three nodes": cases.star_cluster(3),
    "four nodes": cases.star_cluster(4),
    "six workers on a machine": cases.local_cluster(6),
    "three by two": cases.star_cluster(3, workers=2),
    "two racks": cases.rack_cluster(),
    "racks of three and one": cases.racks(3, 1),
    "uneven": cases.uneven_cluster(),
    "GPUs": cases.gpu_cluster(),
}
LOSSY: tuple[Compressor, ...] = (Cast("bf16"), Cast("fp16"), TopK(0.01), TopK(0.07), PowerSGD(1), PowerSGD(4))
FACTORS = SufficientFactors()


def model(rows: int = 720, columns: int = 240, dtype: str = "float32") -> ModelSpec:
    """A matrix with factors, a kernel with three axes, a vector, an embedding and one with copies. All sizes divide by
    2, 3, 4 and 6."""
    variables = (
        Variable("matrix", (rows, columns), dtype, 3, factor_rows=32),
        Variable("kernel", (6, rows // 6, 120), dtype, 2),
        Variable("bias", (columns,), dtype, 1),
        Variable("embedding", (1200, 12), dtype, 0, sparse=True, rows_per_step=120.0),
        Variable("copies", (1200, 12), dtype, 4, True, 120.0, rows_of_two=204.0, copied=True),
    )
    return ModelSpec("small", 8, "SGD", 0, variables)


def strategy_by(spec: ModelSpec, cluster: ClusterSpec, synchronizer: Synchronizer, cut: int = 1) -> Strategy:
    """Every variable by `synchronizer`, in `cut` shards; without the compressor for variables it does not fit."""
    return Strategy(
        tuple(map(str, cluster.replica_devices)),
        tuple(_decided(variable, synchronizer, cut) for variable in spec.variables),
    )


def _decided(variable: Variable, wanted: Synchronizer, cut: int) -> VariableStrategy:
    fitting = wanted
    if isinstance(wanted.compressor, SufficientFactors):
        cut = 1
        if variable.factor_rows is None:
            fitting = replace(wanted, compressor=None)
    elif variable.sparse and not isinstance(wanted.compressor, Cast):
        fitting = replace(wanted, compressor=None)
    if isinstance(fitting, AllReduce) and fitting != wanted:
        fitting = replace(fitting, group=wanted.group + 1)
    if variable.sparse and isinstance(fitting, AllReduce):
        fitting = replace(fitting, group=wanted.group + 2, algorithm="ring")
    if variable.sparse and isinstance(fitting, ParameterServer):
        fitting = replace(fitting, local_copy=False)
    return VariableStrategy(variable.name, (fitting,) * cut, Partition(0, cut) if cut > 1 else None)


def check(spec: ModelSpec, cluster: ClusterSpec, strategy: Strategy, **tolerance: float) -> None:
    check_strategy(strategy, spec, cluster)
    counted = link_bytes(traffic(spec, cluster, strategy), cluster)
    assert counted == pytest.approx(link_bytes_of_messages(spec, cluster, strategy), **({"rel": 1e-9} | tolerance))


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
class TestWholeSizes:
    """Every byte is accounted for if all sizes divide evenly."""

    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    def test_an_algorithm_sends_what_its_messages_hold(self, cluster: ClusterSpec, algorithm: str) -> None:
        check(model(), cluster, strategy_by(model(), cluster, AllReduce(0, algorithm)))

    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    @pytest.mark.parametrize("compressor", [Cast("bf16"), Cast("fp16"), PowerSGD(4)], ids=repr)
    def test_a_compressed_bucket_goes_by_its_algorithm(
        self, cluster: ClusterSpec, algorithm: str, compressor: Compressor
    ) -> None:
        if algorithm == "collective" and compressor == Cast("fp16"):
            compressor = Cast("bf16")  # collectives have no place for fp16's scales
        strategy = strategy_by(model(), cluster, AllReduce(0, algorithm, compressor))
        check(model(), cluster, strategy, rel=1e-9 if isinstance(compressor, Cast) else 0.01)

    @pytest.mark.parametrize("algorithm", ALGORITHMS)
    @pytest.mark.parametrize("indices", ["star", "var"])
    def test_shared_indices_go_to_all_and_their_values_by_the_algorithm(
        self, cluster: ClusterSpec, algorithm: str, indices: str
    ) -> None:
        strategy = strategy_by(model(), cluster, AllReduce(0, algorithm, TopK(0.03, indices)))
        check(model(), cluster, strategy, rel=0.005)

    @pytest.mark.parametrize("compressor", [TopK(0.01), FACTORS], ids=repr)
    def test_own_parts_go_from_every_replica_to_all_others(self, cluster: ClusterSpec, compressor: Compressor) -> None:
        check(model(), cluster, strategy_by(model(), cluster, AllReduce(0, compressor=compressor)))

    @pytest.mark.parametrize("compressor", [None, *LOSSY, FACTORS], ids=repr)
    @pytest.mark.parametrize("local_copy", [False, True])
    @pytest.mark.parametrize("cut", [1, 3])
    def test_a_server_is_pushed_compressed_gradients_and_pulled_whole_values(
        self, cluster: ClusterSpec, compressor: Compressor | None, local_copy: bool, cut: int
    ) -> None:
        server = ParameterServer(str(cluster.server_devices[-1]), local_copy, compressor=compressor)
        check(model(), cluster, strategy_by(model(), cluster, server, cut))

    def test_staleness_changes_no_bytes(self, cluster: ClusterSpec) -> None:
        fresh, stale = (
            strategy_by(model(), cluster, ParameterServer(str(cluster.server_devices[0]), staleness=steps))
            for steps in (0, 3)
        )
        assert (traffic(model(), cluster, fresh).bytes == traffic(model(), cluster, stale).bytes).all()


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("compressor", [None, Cast("bf16"), PowerSGD(2), TopK(0.05, "var")], ids=repr)
def test_uneven_sizes_are_off_by_a_few_elements_at_most(
    cluster: ClusterSpec, algorithm: str, compressor: Compressor | None
) -> None:
    spec = model(rows=1009 * 2, columns=101)
    strategy = strategy_by(spec, cluster, AllReduce(0, algorithm, compressor))
    check(spec, cluster, strategy, rel=0.01)


@pytest.mark.parametrize("compressor", LOSSY, ids=repr)
def test_every_shard_is_compressed_separately(compressor: Compressor) -> None:
    spec, cluster = model(rows=1010, columns=101), cases.star_cluster(4)
    check(spec, cluster, strategy_by(spec, cluster, ParameterServer("node1/cpu:0", compressor=compressor), cut=4))


def test_gradients_of_eight_bytes_are_halved_to_two_and_their_values_kept() -> None:
    spec, cluster = model(dtype="float64"), cases.star_cluster(3)
    for compressor in (Cast("bf16"), TopK(0.01), PowerSGD(2), FACTORS):
        check(spec, cluster, strategy_by(spec, cluster, ParameterServer("node0/cpu:0", compressor=compressor)))


def vector_on(cluster: ClusterSpec, synchronizer: Synchronizer) -> dict[str, float]:
    spec = ModelSpec("w", 8, "SGD", 0, (Variable("w", (1200,), "float32", 0),))
    return link_messages(traffic(spec, cluster, strategy_by(spec, cluster, synchronizer)), cluster)


def test_messages_of_a_tree_are_two_a_replica_but_for_the_first() -> None:
    cluster = cases.star_cluster(4)
    assert sum(vector_on(cluster, AllReduce(0, "tree")).values()) == 2 * 2 * 3
    assert vector_on(cluster, AllReduce(0, "tree"))["switch>node0"] == 2


def test_halving_and_doubling_takes_two_messages_a_power_of_two() -> None:
    assert set(vector_on(cases.star_cluster(4), AllReduce(0, "halving_doubling")).values()) == {4}
    assert set(vector_on(cases.star_cluster(4), AllReduce(0, "rabenseifner")).values()) == {4}


@pytest.mark.parametrize("algorithm", ["halving_doubling", "rabenseifner"])
@pytest.mark.parametrize(("nodes", "messages"), [(3, 4), (5, 8), (6, 6), (9, 8), (10, 10), (12, 8)])
def test_numbers_of_replicas_that_are_no_power_of_two_are_parted_by_what_divides_them(
    algorithm: str, nodes: int, messages: int
) -> None:
    assert set(vector_on(cases.star_cluster(nodes), AllReduce(0, algorithm)).values()) == {messages}


def test_blueconnect_meets_at_once_and_in_few_levels() -> None:
    for nodes, messages in ((4, 6), (7, 12), (8, 8), (16, 12)):
        assert set(vector_on(cases.star_cluster(nodes), AllReduce(0, "blueconnect")).values()) == {messages}


def test_a_scale_is_a_message_beside_every_gradient_in_fp16() -> None:
    cluster = cases.star_cluster(4)
    whole, scaled = (vector_on(cluster, AllReduce(0, "ring", compressor)) for compressor in (None, Cast("fp16")))
    assert scaled == {link: 2 * count for link, count in whole.items()}


def test_values_and_indices_are_two_messages() -> None:
    assert set(vector_on(cases.star_cluster(4), AllReduce(0, compressor=TopK(0.1))).values()) == {6}
