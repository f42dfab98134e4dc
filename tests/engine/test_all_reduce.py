"""All-reduce algorithms on arrays of any length, including arrays shorter than the number of replicas."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import tensorflow as tf

from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.sync.all_reduce import ALL_REDUCE
from autosync.engine.tensorflow.sync.member import Members
from autosync.engine.tensorflow.sync.wire import PLAIN, Wire
from autosync.layout.all_reduce import layout_of
from autosync.layout.all_reduce.ring import MOST_RING_PIECES, RING_PIECE_BYTES
from autosync.spec import PLACED_ALGORITHMS, Cast, ClusterSpec
from tests.cases import racks, star_cluster, uneven_cluster, up_slower
from tests.layout.carried_out import carried_out

IN_16_BITS = [(algorithm, "bf16") for algorithm in ALL_REDUCE] + [
    (algorithm, "fp16") for algorithm in PLACED_ALGORITHMS
]
"""A collective cannot carry the scales of fp16."""


def _members(count: int) -> Members:
    """`count` members, two on each node; with an odd count the last member is alone."""
    return _members_on(star_cluster(-(-count // 2), workers=2), count)


def _members_on(cluster: ClusterSpec, count: int) -> Members:
    return Members.of(Placement.in_one_process(cluster), list(map(str, cluster.replica_devices))[:count])


def _in_racks(*sizes: int) -> Members:
    return _members_on(racks(*sizes), sum(sizes))


def _means(algorithm: str, gradients: list[np.ndarray], wire=PLAIN, members: Members | None = None) -> list[np.ndarray]:
    members = members or _members(len(gradients))

    @tf.function(autograph=False)
    def reduce(flat):
        return [tf.concat(chunks, 0) for chunks in ALL_REDUCE[algorithm](members, flat, wire)]

    return [mean.numpy() for mean in reduce([tf.constant(gradient) for gradient in gradients])]


@pytest.mark.quick("1-1-*", "2-2-*", "3-*", "4-7-*", "7-97-*")
@pytest.mark.parametrize("algorithm", ALL_REDUCE)
@pytest.mark.parametrize("elements", [1, 2, 3, 4, 5, 7, 97])
@pytest.mark.parametrize("replicas", [1, 2, 3, 4, 7])
def test_every_replica_gets_the_same_bits_of_the_mean(algorithm, replicas, elements):
    gradients = list(np.random.default_rng(0).normal(size=(replicas, elements)).astype(np.float32))
    means = _means(algorithm, gradients)
    assert len({mean.tobytes() for mean in means}) == 1
    np.testing.assert_allclose(means[0], np.mean(gradients, axis=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical"])
@pytest.mark.parametrize("wire", [PLAIN, Wire(Cast("fp16"))], ids=["whole", "fp16"])
def test_chunks_large_enough_to_go_round_in_pieces_give_the_same_bits_to_all(algorithm, wire):
    elements = 3 * (2 * RING_PIECE_BYTES // 4) + 101  # three chunks of two pieces, the last pieces uneven
    gradients = list(np.random.default_rng(0).normal(size=(3, elements)).astype(np.float32))
    means = _means(algorithm, gradients, wire)
    assert len({mean.tobytes() for mean in means}) == 1
    bound = 1e-6 if wire.cast is None else 3 * 2.0**-11 * np.abs(gradients).sum(0).max()
    np.testing.assert_allclose(means[0], np.mean(gradients, axis=0), rtol=0, atol=bound)


@pytest.mark.parametrize("algorithm", PLACED_ALGORITHMS)
@pytest.mark.parametrize("wire", [PLAIN, Wire(Cast("bf16")), Wire(Cast("fp16"))], ids=["whole", "bf16", "fp16"])
@pytest.mark.parametrize("sizes", [(3, 2), (4, 1), (3, 3, 2, 1)], ids=str)
def test_replicas_of_unlike_racks_get_the_same_bits(algorithm, wire, sizes):
    members, replicas = _in_racks(*sizes), sum(sizes)
    gradients = list(np.random.default_rng(0).normal(size=(replicas, 101)).astype(np.float32))
    means = _means(algorithm, gradients, wire, members)
    assert len({mean.tobytes() for mean in means}) == 1
    bound = 1e-6 if wire.cast is None else 10 * 2.0**-8 * np.abs(gradients).sum(0).max() / replicas
    np.testing.assert_allclose(means[0], np.mean(gradients, axis=0), rtol=0, atol=bound)


UNLIKE = {
    "racks": racks(2, 2, 2),
    "unlike racks": racks(3, 2),
    "a slow link": uneven_cluster(),
    "up slower": up_slower(),
}


@pytest.mark.parametrize("wire", [PLAIN, Wire(Cast("bf16")), Wire(Cast("fp16"))], ids=["whole", "bf16", "fp16"])
@pytest.mark.parametrize("elements", [1, 7, 1009])
@pytest.mark.parametrize("cluster", UNLIKE.values(), ids=UNLIKE)
@pytest.mark.parametrize("algorithm", ["direct", "fitted"])
def test_schedules_for_unlike_links_give_the_same_bits_of_the_mean_to_all(algorithm, cluster, elements, wire):
    members = _members_on(cluster, len(cluster.replica_devices))
    gradients = list(np.random.default_rng(0).normal(size=(len(members), elements)).astype(np.float32))
    means = _means(algorithm, gradients, wire, members)
    assert len({mean.tobytes() for mean in means}) == 1
    off = 1e-6 if wire.cast is None else 6 * 2.0**-8 * np.abs(gradients).sum(0).max() / len(members)
    np.testing.assert_allclose(means[0], np.mean(gradients, axis=0), rtol=1e-5, atol=off)


def test_a_member_holds_back_what_it_sends_of_its_own_until_what_it_awaits_has_come():
    """Otherwise all pieces would share the slow link, and none would arrive before the last."""
    cluster = uneven_cluster()
    members, sent = _members_on(cluster, len(cluster.replica_devices)), 1200
    moves = layout_of("direct").moves(members.topology, sent, 4)
    assert len(moves.cuts) > 3
    reduce = tf.function(lambda *flat: ALL_REDUCE["direct"](members, flat, PLAIN), autograph=False)
    graph = reduce.get_concrete_function(*[tf.TensorSpec([sent])] * len(members)).graph
    slow = tf.DeviceSpec.from_string(members[-1].device).to_string()
    held = [op for op in graph.get_operations() if op.type == "Identity" and op.device == slow and op.control_inputs]
    rounds = [sum(move.source == len(members) - 1 for move in stage) for stage in moves.adding]
    _, second, *later = filter(None, rounds)
    # The second piece waits until the first has arrived. Later pieces wait for means that reach the member itself.
    awaited_at_itself = [{source.device == slow for source in op.control_inputs} for op in held]
    assert awaited_at_itself == [{False}] * second + [{True}] * sum(later)
    assert second > 0


@pytest.mark.parametrize(
    ("chunk_bytes", "pieces"),
    [(4, 1), (RING_PIECE_BYTES, 1), (2 * RING_PIECE_BYTES, 2), (100 * RING_PIECE_BYTES, MOST_RING_PIECES)],
)
def test_only_large_chunks_are_cut_in_pieces(chunk_bytes, pieces):
    members = _members(4)
    gradient = tf.TensorSpec([chunk_bytes // 4 * 4])
    reduce = tf.function(lambda *flat: ALL_REDUCE["ring"](members, flat, PLAIN), autograph=False)
    operations = reduce.get_concrete_function(*[gradient] * 4).graph.get_operations()
    assert sum(operation.type == "AddV2" for operation in operations) == 4 * 3 * pieces


@pytest.mark.parametrize("elements", [1, 3, 97])
@pytest.mark.parametrize("replicas", [2, 3, 5, 8, (3, 2), (4, 1, 2)], ids=str)
@pytest.mark.parametrize("algorithm", PLACED_ALGORITHMS)
def test_a_message_goes_for_every_move_and_for_nothing_else(algorithm, replicas, elements):
    members = _members(replicas) if isinstance(replicas, int) else _in_racks(*replicas)
    moves_of = layout_of(algorithm).moves
    moves = moves_of(members.topology, elements, 4)
    with tf.Graph().as_default() as graph:
        flat = []
        for member in members:
            with tf.device(member.device):
                flat.append(tf.raw_ops.Placeholder(dtype=tf.float32, shape=[elements]))
        for member, pieces in zip(members, ALL_REDUCE[algorithm](members, flat, PLAIN), strict=True):
            with tf.device(member.device):
                tf.add_n([tf.reduce_sum(piece) for piece in pieces])
        used = {(tensor.ref(), op.device) for op in graph.get_operations() for tensor in op.inputs}
    # A tensor that ops on another device read is sent to that device once.
    sent = Counter(
        (tensor.deref().device, device, tensor.deref().shape[0])
        for tensor, device in used
        if tensor.deref().device != device
    )
    listed = [move for stage in (*moves.adding, *moves.copying) for move in stage]
    name = [tf.DeviceSpec.from_string(member.device).to_string() for member in members]
    assert sent == Counter((name[source], name[target], end - begin) for source, target, (begin, end) in listed)


def _roundings(algorithm: str, replicas: int) -> int:
    """The largest number of roundings of an element, by the moves. A collective's sums go around like a ring's."""
    moves = layout_of(algorithm).moves
    if moves is None:
        return replicas
    return max(
        mean.roundings for mean in carried_out(moves(_members(replicas).topology, 97, 4), replicas, 97)[0] if mean
    )


@pytest.mark.parametrize(
    ("algorithm", "roundings"),
    [
        ("ring", 8),
        ("tree", 4),
        ("halving_doubling", 4),
        ("rabenseifner", 4),
        ("hierarchical", 5),
        ("blueconnect", 3),
        ("direct", 3),
    ],
)
def test_an_element_of_eight_replicas_on_four_nodes_is_rounded_as_often_as_is_said(algorithm, roundings):
    assert _roundings(algorithm, 8) == roundings


@pytest.mark.quick("2-1-float32-*", "3-*-float32-*-bf16", "5-*-float64-*-bf16")
@pytest.mark.parametrize(("algorithm", "cast"), IN_16_BITS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("replicas", "elements"), [(2, 1), (3, 2), (4, 97), (7, 5), (7, 97)])
def test_in_16_bits_every_replica_gets_the_same_bits_within_the_stated_bound(
    algorithm, cast, dtype, replicas, elements
):
    rng = np.random.default_rng(replicas)
    gradients = list((rng.normal(size=(replicas, elements)) * 10.0 ** rng.integers(-6, 6, elements)).astype(dtype))
    means = _means(algorithm, gradients, Wire(Cast(cast)))
    assert len({mean.tobytes() for mean in means}) == 1
    assert means[0].dtype == dtype
    largest = np.abs(gradients).sum(0)  # of any partial sum
    of_one = 2.0**-8 * largest if cast == "bf16" else 2.0**-11 * largest + 2.0**-39 * largest.max()
    off = np.abs(means[0] - np.mean(gradients, axis=0, dtype=np.float64))
    assert (off <= 1.01 * _roundings(algorithm, replicas) * of_one / replicas).all()
    assert off.any()


@pytest.mark.parametrize(("algorithm", "cast"), [*((algorithm, None) for algorithm in ALL_REDUCE), *IN_16_BITS])
def test_a_nan_of_one_replica_reaches_all(algorithm, cast):
    wire = Wire(Cast(cast) if cast else None)
    gradients = [np.ones(5, np.float32) for _ in range(3)]
    gradients[1][4] = np.nan
    for mean in _means(algorithm, gradients, wire):
        assert np.isnan(mean[4])
        if wire.cast is None:
            assert not np.isnan(mean[:4]).any()


@pytest.mark.parametrize("algorithm", ALL_REDUCE)
def test_one_replica_alone_rounds_nothing(algorithm):
    gradient = np.array([1 + 2.0**-20, 3.0], np.float32)
    assert _means(algorithm, [gradient], Wire(Cast("bf16")))[0].tobytes() == gradient.tobytes()
