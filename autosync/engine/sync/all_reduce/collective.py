"""All-reduce by TensorFlow's own collectives: NCCL among GPUs, TensorFlow's ring over gRPC among CPUs.

Traffic is a ring's, in TensorFlow's order of devices (by task), whatever that of the replicas. Among GPUs this is the
way to NCCL, within a node and across: `tf.raw_ops.NcclAllReduce` reaches the GPUs of one process only. Nothing here has
been tried on GPUs; that the hint `nccl` chooses NCCL there is what TensorFlow's source says.

The op is `CollectiveReduce`, not `CollectiveReduceV2`. A `tf.function` lets stateful ops wait for each other, unless it
knows them as ones that need not (`ASYNC_STATEFUL_OPS` in TensorFlow's `auto_control_deps`), which the second is not:
replicas of it would wait for each other's end, and never meet.

A worker sets up collectives anew for a client that finds it without another client (`servers.connect`), so a function
traced on one connection is of no use on the next; and where one op of a step fails while others wait in a collective,
TensorFlow mostly refuses all collectives from then on, until a client connects anew.

In 16 bits, which is bf16 alone, each replica's gradient is rounded once and each partial sum once, N-1 of them in all:
the error is at most about N times that of one message (`wire`) of the largest partial sum. fp16 is not for it: its
numbers need a scale, each message its own, and a collective's sums have no place for one.
"""

import itertools
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from autosync.engine.sync.member import Members
from autosync.engine.sync.wire import Wire

KEY_BITS = 30
"""Keys are int32. A worker remembers what it did under a key, so that none may be used for something else: they are
counted up from a random number, that clients which follow one another on the same workers may not share them."""

_groups: dict[tuple[str, ...], int] = {}
_keys: Iterator[int] = itertools.count(secrets.randbits(KEY_BITS))


def collective_mean(members: Members, gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member."""
    if len(members) == 1:
        return [[gradients[0]]]
    devices = tuple(member.device for member in members)
    group, instance = _groups.setdefault(devices, next(_keys)), next(_keys)
    return [
        [_reduced(device, gradient, wire, (len(members), group, instance))]
        for device, gradient in zip(devices, gradients, strict=True)
    ]


def _reduced(device: str, gradient: Any, wire: Wire, keys: tuple[int, int, int]) -> Any:
    """One member's part. `keys`: the size and the key of the group, and the key of this all-reduce."""
    import tensorflow as tf

    size, group, instance = keys
    sent = wire.message(gradient, device)
    assert sent.scales is None, "a strategy with fp16 in a collective has a fault"
    on_gpu = "GPU" in device
    # NCCL wants its calls in one order on all devices; on CPUs a chain would only cost time.
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
