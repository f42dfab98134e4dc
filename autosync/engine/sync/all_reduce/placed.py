"""All-reduces made of moves (`autosync.layout.all_reduce`), carried out by ops, each on the device of its member."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from autosync.engine.arrays import cut, scaled
from autosync.engine.sync.member import Members
from autosync.engine.sync.wire import Message, Wire, joined, read
from autosync.layout.moves import MovesOf, Round, Span

Sums: TypeAlias = dict[Span, Any]
Means: TypeAlias = dict[Span, Message]


def mean_by_moves(moves_of: MovesOf, members: Members, gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member, in flat pieces."""
    if len(members) == 1:
        return [[gradients[0]]]
    devices, first = [member.device for member in members], gradients[0]
    elements = int(first.shape[0])
    moves = moves_of(members.topology, elements, first.dtype.size)
    held: list[Sums] = [{(0, elements): gradient} for gradient in gradients]
    for each in moves.adding:
        _add(each, held, devices, wire)
    handed = {(target, span) for each in moves.copying for _, target, span in each}
    means: list[Means] = [
        {
            span: wire.message(scaled(total, 1.0 / len(members), device), device)
            for span, total in sums.items()
            if (member, span) not in handed
        }
        for member, (sums, device) in enumerate(zip(held, devices, strict=True))
    ]
    # Who sends a message on needs it for itself first; others only read it.
    sent_on = {(source, span) for each in moves.copying for source, _, span in each}
    for each in moves.copying:
        sent = [_whole(means[source], span, devices[source]) for source, _, span in each]
        for (_, target, span), message in zip(each, sent, strict=True):
            means[target][span] = message.at(devices[target]) if (target, span) in sent_on else message
    return [read([own[span] for span in sorted(own)], device) for own, device in zip(means, devices, strict=True)]


def _add(moves: Round, held: Sequence[Sums], devices: Sequence[str], wire: Wire) -> None:
    """A round in which every target adds what it gets to what it has."""
    bounds = sorted({bound for move in moves for bound in move.span})
    own: dict[int, set[Span]] = {}
    for source, target, span in moves:
        own.setdefault(source, set()).add(span)
        own.setdefault(target, set()).add(span)
    for member, spans in own.items():
        if spans <= held[member].keys():
            continue
        # Who sends or gets a span whole does not cut it where others cut theirs.
        inside = {bound for begin, end in spans for bound in bounds if begin < bound < end}
        at = [bound for bound in bounds if bound not in inside]
        for span in sorted(spans):
            if span not in held[member]:
                _cut(held[member], span, at, devices[member])
    sent = [held[source][span] for source, _, span in moves]
    for (source, target, span), tensor in zip(moves, sent, strict=True):
        held[target][span] = wire.added(tensor, devices[source], held[target][span], devices[target])


def _cut(sums: Sums, span: Span, bounds: Sequence[int], device: str) -> None:
    """Cut that of the sums which `span` is a part of, at all `bounds` in it, which are in order."""
    whole = next(each for each in sums if each[0] <= span[0] and span[1] <= each[1])
    at = [whole[0], *(each for each in bounds if whole[0] < each < whole[1]), whole[1]]
    spans = list(pairwise(at))
    parts = cut(sums.pop(whole), [end - begin for begin, end in spans], device)
    sums.update(zip(spans, parts, strict=True))


def _whole(means: Means, span: Span, device: str) -> Message:
    """The message of `span`, from now on put together if it is held in parts."""
    if span not in means:
        parts = sorted(each for each in means if span[0] <= each[0] and each[1] <= span[1])
        means[span] = joined([means.pop(each) for each in parts], device)
    return means[span]
