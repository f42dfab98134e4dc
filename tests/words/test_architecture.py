"""The architecture of a strategy by shares of gradient bytes, and its summary in a line."""

from __future__ import annotations

from autosync.baselines import BASELINES
from autosync.spec import AllReduce, ParameterServer, Partition, Strategy, Synchronizer, VariableStrategy
from autosync.words.strategy import architecture_of, summary_of
from tests import cases

CLUSTER = cases.star_cluster(2)


def strategy(*synchronizers: Synchronizer) -> Strategy:
    """A strategy with synchronizers for the perceptron's kernels and biases alternately, from the first layer on."""
    model = cases.mlp_model()
    return Strategy(
        tuple(str(device) for device in CLUSTER.replica_devices),
        tuple(
            VariableStrategy(variable.name, (way,))
            for variable, way in zip(model.variables, synchronizers, strict=True)
        ),
    )


def test_nearly_all_bytes_decide_the_architecture() -> None:
    model, (server, *_) = cases.mlp_model(), [str(device) for device in CLUSTER.server_devices]
    ring, served = AllReduce(0), ParameterServer(server)
    assert architecture_of(strategy(*[ring] * 6), model) == "all-reduce"
    assert architecture_of(strategy(*[served] * 6), model) == "parameter servers"
    # Biases have few bytes; the second kernel has three quarters of all bytes.
    assert architecture_of(strategy(ring, served, ring, served, ring, served), model) == "all-reduce"
    assert architecture_of(strategy(served, ring, ring, ring, ring, ring), model) == "mixed"


def test_sparse_gradients_that_all_replicas_gather_are_a_kind_of_their_own() -> None:
    model = cases.ncf_like_model()
    gathered = Strategy(
        tuple(str(device) for device in CLUSTER.replica_devices),
        tuple(VariableStrategy(variable.name, (AllReduce(0),)) for variable in model.variables),
    )
    assert architecture_of(gathered, model) == "gathered rows"
    assert architecture_of(BASELINES["parameter_server"](model, CLUSTER), model) == "parameter servers"


def test_a_summary_counts_shares_buckets_servers_and_cuts() -> None:
    model, (server, *_) = cases.mlp_model(), [str(device) for device in CLUSTER.server_devices]
    ways = [AllReduce(0), AllReduce(0), AllReduce(1, "tree"), AllReduce(1, "tree"), ParameterServer(server, True)]
    candidate = strategy(*ways, ParameterServer(server))
    assert summary_of(candidate, model) == (
        "97% all-reduce (ring/tree, 2 buckets), 3% parameter servers (on 1 device, local copies)"
    )
    cut = VariableStrategy("dense_0/kernel", (ParameterServer(server),) * 2, Partition(0, 2))
    whole = [VariableStrategy(variable.name, (ParameterServer(server),)) for variable in model.variables[1:]]
    served = Strategy(candidate.replicas, (cut, *whole))
    assert summary_of(served, model) == "100% parameter servers (on 1 device), 1 of 6 variables cut"
