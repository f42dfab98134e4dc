"""Gradients in 16 bits: every message is rounded as documented, and all ranks have the bits of a model in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autosync.engine.pytorch.local_transport import local_group
from autosync.engine.pytorch.rows import RowExchange, RowGather, RowServer
from autosync.engine.pytorch.wire import PLAIN, WireForm
from autosync.layout.gather import gather_among
from autosync.layout.topology import Topology
from autosync.numeric import AnyArray
from autosync.spec import PLACED_ALGORITHMS, AllReduce, Cast, ParameterServer
from tests.cases import local_cluster, rack_cluster, star_cluster
from tests.cover import crossed
from tests.engine.pytorch.buckets import BucketSteps, same
from tests.engine.pytorch.ranks import on_all_ranks

CLUSTERS = {"racks": rack_cluster(), "three nodes": star_cluster(3), "two by two": star_cluster(nodes=2, workers=2)}
BF16, FP16 = WireForm(Cast("bf16")), WireForm(Cast("fp16"))
ELEMENTS = 103


def rounded(values: AnyArray, cast: str) -> AnyArray:
    """A message of float32 numbers after its arrival, by the rules in `engine/tensorflow/sync/wire.py`."""
    if cast == "bf16":
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
    exponent = min(15 - int(np.frexp(np.abs(values).max())[1]), 126) if values.any() else 126
    return np.ldexp(np.ldexp(values, exponent).astype(np.float16).astype(np.float32), -exponent)


def arrived(wire: WireForm, values: AnyArray) -> AnyArray:
    tensor = torch.empty(len(values), dtype=getattr(torch, str(values.dtype))).copy_(torch.from_numpy(values))
    message = wire.buffer(tensor)
    assert len(message) == wire.size(len(values), tensor.dtype)
    wire.write(tensor, message)
    return wire.read(message, tensor.dtype).numpy()


@settings(max_examples=100, deadline=None)
@given(numbers=st.lists(st.floats(-(2.0**126), 2.0**126, width=32, allow_subnormal=False), min_size=1, max_size=9))
@pytest.mark.parametrize("cast", ["bf16", "fp16"])
def test_numbers_arrive_rounded_as_documented(cast: str, numbers: list[float]) -> None:
    sent = np.array(numbers, np.float32)
    if np.abs(sent).max() < 2.0**-100:  # the power of two is at most 2^126
        return
    np.testing.assert_array_equal(arrived(WireForm(Cast(cast)), sent), rounded(sent, cast))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("wire", [PLAIN, BF16, FP16], ids=["whole", "bf16", "fp16"])
def test_nan_infinity_and_empty_messages_arrive(wire: WireForm, dtype: str) -> None:
    sent = np.array([0.0, np.nan, np.inf, -np.inf, 1.0], dtype)
    np.testing.assert_array_equal(arrived(wire, sent)[1:4], sent[1:4])
    assert arrived(wire, np.zeros(0, dtype)).shape == (0,)
    assert not arrived(wire, np.zeros(3, dtype)).any()


def gradients_of(replicas: int, seed: int = 0) -> list[list[AnyArray]]:
    rng = np.random.default_rng(seed)
    return [[(rng.normal(size=ELEMENTS) * 2.0 ** rng.integers(-9, 9)).astype(np.float32)] for _ in range(replicas)]


@pytest.mark.parametrize(("algorithm", "place", "cast"), crossed(PLACED_ALGORITHMS, CLUSTERS, ("bf16", "fp16")))
def test_every_message_of_an_all_reduce_is_rounded_once(algorithm: str, place: str, cast: str) -> None:
    steps = BucketSteps(AllReduce(0, algorithm, Cast(cast)), [(ELEMENTS,)], CLUSTERS[place])
    (planned,) = steps.bucket.exchanges
    replicas = len(planned.programs)
    for number in range(2):
        gradients = gradients_of(replicas, number)
        sums = [of_rank[0].copy() for of_rank in gradients]
        mean = np.zeros(ELEMENTS, np.float32)
        for rounds in zip(*(program.rounds for program in planned.programs), strict=True):
            sent = {
                (source, target, span): rounded(sums[source][slice(*span)], cast)
                for source, steps_of in enumerate(rounds)
                for target, span in steps_of.sums_sent
            }
            for target, steps_of in enumerate(rounds):
                for source, span in steps_of.added:
                    sums[target][slice(*span)] += sent[source, target, span]
            for member, steps_of in enumerate(rounds):
                for span in steps_of.finished:
                    mean[slice(*span)] = rounded(sums[member][slice(*span)] * np.float32(1 / replicas), cast)
        np.testing.assert_array_equal(same(steps(gradients)), mean)
    steps.close()


@pytest.mark.parametrize("cast", ["bf16", "fp16"])
def test_a_server_adds_rounded_gradients_and_its_mean_is_not_rounded(cast: str) -> None:
    steps = BucketSteps(ParameterServer("node1/cpu:0", compressor=Cast(cast)), [(ELEMENTS,)], 3)
    gradients = [gradient for (gradient,) in gradients_of(3)]
    expected = gradients[1] + rounded(gradients[0], cast) + rounded(gradients[2], cast)
    np.testing.assert_array_equal(same(steps([[gradient] for gradient in gradients])), expected * np.float32(1 / 3))
    steps.close()


def test_a_collective_adds_in_bf16() -> None:
    steps = BucketSteps(AllReduce(0, "collective", Cast("bf16")), [(ELEMENTS,)], 2)
    gradients = [gradient for (gradient,) in gradients_of(2)]
    total = rounded(rounded(gradients[0], "bf16") + rounded(gradients[1], "bf16"), "bf16")
    np.testing.assert_array_equal(same(steps([[gradient] for gradient in gradients])), total / 2)
    steps.close()


def test_the_gradients_of_a_single_replica_stay() -> None:
    for cast in ("bf16", "fp16"):
        steps = BucketSteps(AllReduce(0, compressor=Cast(cast)), [(ELEMENTS,)], local_cluster(1))
        ((gradient,),) = gradients_of(1)
        np.testing.assert_array_equal(same(steps([[gradient]])), gradient)
        steps.close()


@pytest.mark.parametrize("cast", [None, "bf16", "fp16"])
@pytest.mark.parametrize("kind", ["gathered", "on a server"])
def test_rows_of_all_ranks_are_rounded_alike(kind: str, cast: str | None) -> None:
    topology, table = Topology.of(rack_cluster()), torch.zeros(7, 3)
    group = local_group(len(topology))
    gradients = []
    for rank in range(len(group)):
        rows = torch.tensor([[2, 2 + rank]]) if rank else torch.zeros((1, 0), dtype=torch.int64)
        values = torch.from_numpy(gradients_of(1, rank)[0][0][: 3 * rows.shape[1]].reshape(-1, 3))
        gradients.append(torch.sparse_coo_tensor(rows, values, table.shape).coalesce())

    def run(rank: int) -> torch.Tensor:
        ranks, wire, ended = range(len(group)), WireForm(Cast(cast) if cast else None), list[int]()
        exchange: RowExchange = RowServer(group[rank], 1, ranks, table, wire)
        if kind == "gathered":
            exchange = RowGather(group[rank], gather_among(topology), ranks, table, wire)
        done = lambda: (ended.append(1), group[rank].notify())  # noqa: E731
        group[rank].call(lambda: exchange.start(1, 0.0, gradients[rank], done))
        group[rank].wait_for(lambda: bool(ended), 30.0)
        return exchange.mean().to_dense()

    means = on_all_ranks(len(group), run)
    for transport in group:
        transport.close()
    expected = np.zeros((7, 3), np.float32)
    for gradient in gradients[1:]:
        values = gradient.values().numpy()
        message = rounded(values.ravel(), cast).reshape(-1, 3) if cast else values
        np.add.at(expected, gradient.indices()[0].numpy(), message * np.float32(1 / len(group)))
    np.testing.assert_allclose(same([mean.numpy() for mean in means]), expected, rtol=1e-6)
