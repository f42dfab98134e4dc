"""Gathers at work: what every replica sends to all others, straight or by relays (`autosync.layout.gather`)."""

from collections.abc import Sequence
from typing import Any

from autosync.engine.sync.member import Members
from autosync.engine.sync.wire import PLAIN, Wire
from autosync.layout.gather import gather_among


def gathered(members: Members, tensors: Sequence[Any], wire: Wire = PLAIN) -> list[list[Any]]:
    """`[t][r]`: the tensor of member r as it arrives over the `wire`, the same on all, for ops on member t to read.

    `tensors[r]` is on `members[r]`. What goes straight is read from where it was made; a relay has a copy, which is
    read by it and those it hands on to.
    """
    gather = gather_among(members.topology)
    made = [wire.message(tensor, member.device) for member, tensor in zip(members, tensors, strict=True)]
    held = [[own] * len(members) for own in made]  # by whose it is, then by who has it
    for hands in gather.rounds:
        for origin, source, target in hands:
            message = held[origin][source]
            relays = (origin, target) in gather.relayed
            held[origin][target] = message.at(members[target].device) if relays else message
    return [[of_origin[target].read(member.device) for of_origin in held] for target, member in enumerate(members)]
