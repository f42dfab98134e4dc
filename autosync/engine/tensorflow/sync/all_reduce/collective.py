"""All-reduce by TensorFlow's own collectives: NCCL among GPUs, TensorFlow's ring over gRPC among CPUs.

The traffic is that of a ring in TensorFlow's order of devices (by task), independent of the order of replicas. Among
GPUs this is the way to NCCL, within a node and across nodes, because `tf.raw_ops.NcclAllReduce` reaches only the GPUs
of one process. This module has not been tried on GPUs; TensorFlow's source says that the hint `nccl` selects NCCL.

The op is `CollectiveReduce`, not `CollectiveReduceV2`. A `tf.function` makes stateful ops wait for each other, except
for the ops in `ASYNC_STATEFUL_OPS` of TensorFlow's `auto_control_deps`. `CollectiveReduceV2` is not one of these, so
each replica's op would wait for another one to end, and the collective would never start.

A worker sets up new collectives for each new connection of a client (`servers.connect`), so a function traced on one
connection is useless on the next. If an op of a step fails while others wait in a collective, TensorFlow usually
refuses all collectives until a client connects again.

With 16 bits, only bf16 is possible. Each replica's gradient is rounded once and each of the N-1 partial sums once, so
the error is at most about N times that of one message (see `wire`) of the largest partial sum. fp16 needs a scale for
each message, and the sums of a collective cannot carry one.
"""

import itertools
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from autosync.engine.tensorflow.sync.member import Members
from autosync.engine.tensorflow.sync.wire import Wire

KEY_BITS = 30
"""Keys are int32. A worker remembers the operation of each key, so a key must never be used for another operation. Keys
are counted up from a random number, so that successive clients of the same workers do not share them."""

_groups: dict[tuple[str, ...], int] = {}
_keys: Iterator[int] = itertools.count(secrets.randbits(KEY_BITS))


def collective_mean(members: Members, gradients: Sequence[tf.Tensor], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member."""
    if len(members) == 1:
        return [[gradients[0]]]
    devices = tuple(member.device for member in members)
    group, instance = _groups.setdefault(devices, next(_keys)), next(_keys)
    return [
        [_reduce_member(device, gradient, wire, (len(members), group, instance))]
        for device, gradient in zip(devices, gradients, strict=True)
    ]


def _reduce_member(device: str, gradient: tf.Tensor, wire: Wire, keys: tuple[int, int, int]) -> Any:
    """Build one member's op. `keys`: the size and the key of the group, and the key of this all-reduce."""
    size, group, instance = keys
    sent = wire.message(gradient, device)
    assert sent.scales is None, "a strategy with fp16 in a collective has a fault"
    on_gpu = "GPU" in device
    # NCCL needs its calls in the same order on all devices; on CPUs a chain would only cost time.
    earlier = tf.compat.v1.get_default_graph().get_collection_ref(f"collectives on {device}") if on_gpu else []
    with tf.device(device), tf.control_dependencies(earlier[-1:]):
        total = tf.raw_ops.CollectiveReduce(
            input=sent.payload,
            group_size=size,
            group_key=group,
            instance_key=instance,
            merge_op="Add",
            final_op="Id",
            subdiv_offsets=[0],
            communication_hint="nccl" if on_gpu else "auto",
        )
        earlier.append(total.op)
        return tf.cast(total, gradient.dtype) * (1.0 / size)
