"""A broadcast whose sender is known only at run time: only the sender's tensor crosses to the others.

The step is one graph, built before the sender is known, so every replica is connected to all others. A `Switch` makes
the tensors of all other replicas dead. TensorFlow and relays then pass only a flag without contents, and the receiver's
`Merge` takes the live tensor. (`tf.cond` would be lowered to the same two operations, but it is an op of one device.) A
`Merge` touches no state, so it waits only for its own inputs, and the messages of other buckets can overlap.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from autosync.engine.tensorflow.no_control_dependencies import run_independently
from autosync.engine.tensorflow.sync.gathered import gather_tensors
from autosync.engine.tensorflow.sync.member import Members


def broadcast_from(members: Members, tensors: Sequence[tf.Tensor], senders: Sequence[Any]) -> list[Any]:
    """Return `tensors[s]` of the sender s, on every member.

    `tensors[r]` is on `members[r]`, and all tensors have one shape. `senders[r]` (scalar int32) is the number of the
    sender on `members[r]`, equal on all members.
    """
    if len(members) == 1:
        return list(tensors)
    sent = []
    for number, (member, tensor, sender) in enumerate(zip(members, tensors, senders, strict=True)):
        with tf.device(member.device):
            sent.append(tf.raw_ops.Switch(data=tensor, pred=tf.equal(sender, number)).output_true)
    received = []
    for member, arrived in zip(members, gather_tensors(members, sent), strict=True):
        with tf.device(member.device):
            merged = tf.raw_ops.Merge(inputs=[tf.identity(tensor) for tensor in arrived]).output
            run_independently(merged.op)
            merged.set_shape(tensors[0].shape)
            received.append(merged)
    return received
