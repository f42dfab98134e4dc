"""A broadcast whose sender follows from the step: only its tensor crosses to the others.

The step is one graph, laid out before it is known who sends, so every replica is joined to every other. A tensor that
is not to be sent is left dead by a `Switch`: TensorFlow then passes on a flag in its place, without contents, as does a
relay, and the receiver's `Merge` takes the one that is alive. (`tf.cond` would be lowered to the same two operations,
but is an op of one device.) A `Merge` touches no state, so it waits for its own inputs alone: other buckets are on
their way meanwhile.
"""

from collections.abc import Sequence
from typing import Any

from autosync.engine.independent import run_independently
from autosync.engine.sync.gathered import gathered
from autosync.engine.sync.member import Members


def from_one(members: Members, tensors: Sequence[Any], senders: Sequence[Any]) -> list[Any]:
    """`tensors[s]` of the sender s, on every member.

    `tensors[r]` is on `members[r]`, all of one shape. `senders[r]` (scalar int32) is the sender as `members[r]` knows
    it, the same number on all.
    """
    import tensorflow as tf

    if len(members) == 1:
        return list(tensors)
    spoken = []
    for number, (member, tensor, sender) in enumerate(zip(members, tensors, senders, strict=True)):
        with tf.device(member.device):
            spoken.append(tf.raw_ops.Switch(data=tensor, pred=tf.equal(sender, number)).output_true)
    heard = []
    for member, arrived in zip(members, gathered(members, spoken), strict=True):
        with tf.device(member.device):
            merged = tf.raw_ops.Merge(inputs=[tf.identity(each) for each in arrived]).output
            run_independently(merged.op)
            merged.set_shape(tensors[0].shape)
            heard.append(merged)
    return heard
