"""Gathers tensors: every replica sends its tensor to all others, directly or by relays (`autosync.layout.gather`)."""

from collections.abc import Sequence
from typing import Any

from autosync.engine.tensorflow.sync.member import Members
from autosync.engine.tensorflow.sync.wire import PLAIN, Wire
from autosync.layout.gather import gather_among


def gather_tensors(members: Members, tensors: Sequence[Any], wire: Wire = PLAIN) -> list[list[Any]]:
    """Send `tensors[r]`, which is on `members[r]`, to all members over the `wire`.

    Returns `[t][r]`: the tensor of member r for ops on member t to read, with the same bits on all members. Without a
    relay, ops read the message on the sender's device. A relay has a copy, which the relay and its receivers read.
    """
    gather = gather_among(members.topology)
    messages = [wire.message(tensor, member.device) for member, tensor in zip(members, tensors, strict=True)]
    held = [[message] * len(members) for message in messages]  # by origin, then by holder
    for hands in gather.rounds:
        for origin, source, target in hands:
            message = held[origin][source]
            relays = (origin, target) in gather.relays
            held[origin][target] = message.at(members[target].device) if relays else message
    return [[of_origin[target].read(member.device) for of_origin in held] for target, member in enumerate(members)]
