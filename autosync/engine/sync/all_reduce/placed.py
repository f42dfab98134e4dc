"""All-reduces made of moves (`autosync.layout.all_reduce`), carried out by ops, each on the device of its member."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias, final

from autosync.engine.arrays import cut, cut_at_run_time, scaled
from autosync.engine.sync.all_reduce.turns import Turns
from autosync.engine.sync.ladder import Kept, RunTimeSpans
from autosync.engine.sync.member import Members
from autosync.engine.sync.wire import Message, Wire, joined, read
from autosync.layout.moves import Moves, MovesOf, Round, Span

Sums: TypeAlias = dict[Span, Any]
Means: TypeAlias = dict[Span, Message]


def mean_by_moves(moves_of: MovesOf, members: Members, gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member, in flat pieces."""
    if len(members) == 1:
        return [[gradients[0]]]
    elements = int(gradients[0].shape[0])
    moves = moves_of(members.topology, elements, gradients[0].dtype.size)
    return _carried_out(moves, _Reduction([each.device for each in members], gradients, wire, moves, elements))


def mean_of_kept(
    moves_of: MovesOf, members: Members, gradients: Sequence[Any], wire: Wire, kept: Kept
) -> list[list[Any]]:
    """The same for gradients of a length that a step is told when it runs: one of the counts of `kept`."""
    if len(members) == 1:
        return [[gradients[0]]]
    moves = [moves_of(members.topology, each, gradients[0].dtype.size) for each in kept.counts]
    spans = RunTimeSpans(kept, moves)
    devices = [each.device for each in members]
    return _carried_out(spans.moves, _Reduction(devices, gradients, wire, spans.moves, spans.length, spans.sizes))


def _carried_out(moves: Moves, work: _Reduction) -> list[list[Any]]:
    """The means that come of `moves`."""
    turns = Turns(work.devices) if moves.cuts else None
    for added, copied in moves.timed:
        work.add(added, turns)
        work.copy(copied, turns)
        if turns is not None:
            turns.next()
    return work.means()


@final
class _Reduction:
    """What every member holds of the sums and of the mean, from round to round."""

    def __init__(
        self,
        devices: list[str],
        gradients: Sequence[Any],
        wire: Wire,
        moves: Moves,
        length: int,
        sizes: Callable[[Sequence[Span], str], Any] | None = None,
    ) -> None:
        """`moves` are of `length` elements; where gradients have another one, `sizes` says how long spans are."""
        self.devices, self._wire, self._sizes = devices, wire, sizes
        whole = (0, length)
        self._sums: list[Sums] = [{whole: gradient} for gradient in gradients]
        for sums, device in zip(self._sums, devices, strict=True):
            if moves.cuts:
                self._cut(sums, whole, moves.cuts, device)
        self._means: list[Means] = [{} for _ in devices]
        self._handed = {(target, span) for each in moves.copying for _, target, span in each}
        # Who sends a message on needs it for itself first; others only read it.
        self._sent_on = {(source, span) for each in moves.copying for source, _, span in each}

    def add(self, moves: Round, turns: Turns | None) -> None:
        """A round in which every target adds what it gets to what it has."""
        bounds = sorted({bound for move in moves for bound in move.span})
        own: dict[int, set[Span]] = {}
        for source, target, span in moves:
            own.setdefault(source, set()).add(span)
            own.setdefault(target, set()).add(span)
        for member, spans in own.items():
            if spans <= self._sums[member].keys():
                continue
            # Who sends or gets a span whole does not cut it where others cut theirs.
            inside = {bound for begin, end in spans for bound in bounds if begin < bound < end}
            at = [bound for bound in bounds if bound not in inside]
            for span in sorted(spans):
                if span not in self._sums[member]:
                    self._cut(self._sums[member], span, at, self.devices[member])
        sent = [self._sums[source][span] for source, _, span in moves]
        for (source, target, span), tensor in zip(moves, sent, strict=True):
            going = tensor if turns is None else turns.held_back(source, span, tensor)
            total = self._wire.added(going, self.devices[source], self._sums[target][span], self.devices[target])
            self._sums[target][span] = total
            if turns is not None:
                turns.note(source, target, span, total)

    def copy(self, moves: Round, turns: Turns | None) -> None:
        """A round in which means are handed on."""
        sent = [self._mean(source, span) for source, _, span in moves]
        for (_, target, span), message in zip(moves, sent, strict=True):
            awaited = turns is not None or (target, span) in self._sent_on
            means = self._means[target]
            means[span] = message.at(self.devices[target]) if awaited else message
            if turns is not None:
                turns.note_mean(target, means[span].payload)

    def means(self) -> list[list[Any]]:
        """The mean on every member, in flat pieces."""
        for member, sums in enumerate(self._sums):
            for span in list(sums):
                self._make(member, span)
        return [
            read([own[span] for span in sorted(own)], device)
            for own, device in zip(self._means, self.devices, strict=True)
        ]

    def _mean(self, member: int, span: Span) -> Message:
        """The message of `span`, from now on put together if it is held in parts."""
        for each in list(self._sums[member]):
            if span[0] <= each[0] and each[1] <= span[1]:
                self._make(member, each)
        means = self._means[member]
        if span not in means:
            parts = sorted(each for each in means if span[0] <= each[0] and each[1] <= span[1])
            means[span] = joined([means.pop(each) for each in parts], self.devices[member])
        return means[span]

    def _make(self, member: int, span: Span) -> None:
        """Make the mean of a whole sum, unless it is handed from elsewhere."""
        total, device = self._sums[member].pop(span), self.devices[member]
        if (member, span) not in self._handed:
            self._means[member][span] = self._wire.message(scaled(total, 1.0 / len(self.devices), device), device)

    def _cut(self, sums: Sums, span: Span, bounds: Sequence[int], device: str) -> None:
        """Cut that of the sums which `span` is a part of, at all `bounds` in it, which are in order."""
        whole = next(each for each in sums if each[0] <= span[0] and span[1] <= each[1])
        at = [whole[0], *(each for each in bounds if whole[0] < each < whole[1]), whole[1]]
        spans = list(pairwise(at))
        if self._sizes is None:
            parts = cut(sums.pop(whole), [end - begin for begin, end in spans], device)
        else:
            parts = cut_at_run_time(sums.pop(whole), self._sizes(spans, device), len(spans), device)
        sums.update(zip(spans, parts, strict=True))
