"""Gathers on logical devices: the tensors that each replica gets, and the device pairs between which they cross."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.sync.dynamic_broadcast import broadcast_from
from autosync.engine.tensorflow.sync.exchange import BucketPlace, FactorPair
from autosync.engine.tensorflow.sync.factors import FactorBucket
from autosync.engine.tensorflow.sync.gathered import gather_tensors
from autosync.engine.tensorflow.sync.member import Members
from autosync.engine.tensorflow.sync.wire import PLAIN, Wire
from autosync.layout.gather import gather_among
from autosync.layout.shards import Shard, Slice
from autosync.spec import AllReduce, Cast, ClusterSpec, Strategy, SufficientFactors, Variable, VariableStrategy
from tests.cases import local_cluster, racks, star_cluster
from tests.contracts.parity import reference, session_on, trained_alike

CLUSTERS = {
    "straight": local_cluster(4),
    "nodes of two": star_cluster(3, workers=2),
    "three racks": racks(2, 2, 2),
    "racks of nodes of two": replace(racks(2, 2), nodes=tuple(replace(node, workers=2) for node in racks(2, 2).nodes)),
}


def _members(cluster: ClusterSpec) -> Members:
    return Members.of(Placement.in_one_process(cluster), list(map(str, cluster.replica_devices)))


def _device(operation: Any) -> int:
    return int(tf.DeviceSpec.from_string(operation.device).device_index)


def _crossing(graph: Any) -> Counter[tuple[int, int]]:
    """Count the tensors that one device makes and another reads, once a reader, by (source, target)."""
    crossing = {}
    for operation in graph.get_operations():
        for tensor in operation.inputs:
            if tensor.op.device and operation.device and tensor.op.device != operation.device:
                crossing[tensor.name, operation.device] = _device(tensor.op), _device(operation)
    return Counter(crossing.values())


def _made(members: Members) -> list[Any]:
    """A tensor on every member: random numbers around the member's number."""
    made = []
    for number, member in enumerate(members):
        with tf.device(member.device):
            made.append(tf.random.stateless_normal([5 + number, 3], [number, 7]) + number)
    return made


@pytest.mark.parametrize("wire", [PLAIN, Wire(Cast("bf16")), Wire(Cast("fp16"))], ids=["whole", "bf16", "fp16"])
@pytest.mark.parametrize("name", CLUSTERS)
def test_all_get_the_same_bits_of_every_replica(name: str, wire: Wire) -> None:
    members = _members(CLUSTERS[name])

    @tf.function(autograph=False)
    def step() -> Any:
        return _made(members), gather_tensors(members, _made(members), wire)

    made, arrived = step()
    for of_target in arrived:
        assert len(of_target) == len(members)
        for sent, got, first in zip(made, of_target, arrived[0], strict=True):
            assert got.numpy().tobytes() == first.numpy().tobytes()
            np.testing.assert_allclose(got, sent, rtol=0 if wire is PLAIN else 2**-8, atol=0)


@pytest.mark.parametrize("name", CLUSTERS)
def test_tensors_cross_as_they_are_laid_out(name: str) -> None:
    members = _members(CLUSTERS[name])
    gather = gather_among(members.topology)
    assert bool(gather.relays) == (name != "straight")

    @tf.function(autograph=False)
    def step() -> Any:
        sums = []
        for member, arrived in zip(members, gather_tensors(members, _made(members)), strict=True):
            with tf.device(member.device):
                sums.append(tf.concat(arrived, 0))
        return sums

    expected = Counter((source, target) for stage in gather.rounds for _, source, target in stage)
    assert _crossing(step.get_concrete_function().graph) == expected


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_broadcast_reaches_all_by_relays_that_also_forward_dead_tensors(name: str) -> None:
    members = _members(CLUSTERS[name])

    @tf.function(autograph=False)
    def step(sender: Any) -> Any:
        tensors, senders = [], []
        for number, member in enumerate(members):
            with tf.device(member.device):
                tensors.append(tf.fill([4], 10 * number))
                senders.append(tf.identity(sender))
        return broadcast_from(members, tensors, senders)

    for sender in range(len(members)):
        assert [tensor.numpy().tolist() for tensor in step(tf.constant(sender))] == [[10 * sender] * 4] * len(members)


def _bucket(shapes: list[tuple[int, int]], rows: int, cluster: ClusterSpec) -> FactorBucket:
    by = AllReduce(0, compressor=SufficientFactors())
    shards = [
        Shard(Slice(Variable(f"w{number}", shape, "float32", number, factor_rows=rows), number, 0, 0, 0, shape[0]), by)
        for number, shape in enumerate(shapes)
    ]
    return FactorBucket(BucketPlace(tuple(shards), _members(cluster)))


SMALL, LARGE = (30, 20), (9000, 300)


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize(
    ("shapes", "messages"),
    [([SMALL], 1), ([SMALL] * 5, 1), ([LARGE], 2), ([SMALL, SMALL, LARGE, SMALL], 4)],
    ids=["one", "small ones", "a large one", "both"],
)
def test_factors_of_small_matrices_share_a_message(name: str, shapes: list[tuple[int, int]], messages: int) -> None:
    rows, bucket = 8, _bucket(shapes, 8, CLUSTERS[name])
    members = bucket._place.members

    @tf.function(autograph=False)
    def step(given: Any) -> Any:
        placed = []
        for member, pairs in zip(members, given, strict=True):
            with tf.device(member.device):
                placed.append([FactorPair(tf.identity(left) + 0.0, tf.identity(right) + 0.0) for left, right in pairs])
        return [tf.concat(pieces, 0) for pieces in bucket.means(placed)]

    random = np.random.default_rng(1)
    given = [
        [tuple(random.normal(size=(rows, side)).astype("float32") for side in shape) for shape in shapes]
        for _ in members
    ]
    means = [mean.numpy() for mean in step(given)]
    assert len({mean.tobytes() for mean in means}) == 1
    products = [np.mean([left.T @ right for left, right in pairs], 0).ravel() for pairs in zip(*given, strict=True)]
    np.testing.assert_allclose(means[0], np.concatenate(products), rtol=1e-4, atol=1e-5)
    crossing = _crossing(step.get_concrete_function(given).graph)
    hands = Counter((source, target) for stage in gather_among(members.topology).rounds for _, source, target in stage)
    assert {pair: count for pair, count in crossing.items() if pair in hands} == {
        pair: messages * count for pair, count in hands.items()
    }


@pytest.mark.parametrize("cast", [None, Cast("bf16")], ids=["whole", "bf16"])
@pytest.mark.parametrize("name", ["three racks", "racks of nodes of two"])
def test_tables_whose_rows_went_by_relays_are_those_of_one_process(name: str, cast: Cast | None) -> None:
    cluster = CLUSTERS[name]
    session = session_on("table", "SGD", cluster)
    replicas = tuple(map(str, cluster.replica_devices))
    decided = tuple(
        VariableStrategy(
            variable.name, (AllReduce(int(variable.sparse), compressor=cast if variable.sparse else None),)
        )
        for variable in session.model.variables
    )
    step = session.realize(Strategy(replicas, decided))
    trained_alike(step, reference("table", "SGD", len(replicas)), 1e-5 if cast is None else 4 * 2.0**-8)
    for sparse in step.placed.sparse.values():
        assert len({table.value.numpy().tobytes() for table in sparse.tables}) == 1
