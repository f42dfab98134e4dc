"""Carries out all-reduces that are laid out in moves: the programs of all members, as ops of one graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

from autosync.engine.tensorflow.arrays import cut, cut_at_run_time, scale
from autosync.engine.tensorflow.sync.all_reduce.turns import Turns
from autosync.engine.tensorflow.sync.member import Members
from autosync.engine.tensorflow.sync.topk_levels import KeptCounts, RunTimeSpans
from autosync.engine.tensorflow.sync.wire import Message, Wire, join_messages, read
from autosync.layout.moves import MovesOf, Span
from autosync.layout.span_program import Division, Program, ProgramRound, programs_of

Sizes: TypeAlias = Callable[[Sequence[Span], str], Any]
"""A function that returns the lengths of spans in the running step, int32 (spans,), on a device."""


def mean_by_moves(moves_of: MovesOf, members: Members, gradients: Sequence[Any], wire: Wire) -> list[list[Any]]:
    """The mean of one flat gradient a member, on every member, in flat pieces."""
    if len(members) == 1:
        return [[gradients[0]]]
    elements = int(gradients[0].shape[0])
    moves = moves_of(members.topology, elements, gradients[0].dtype.size)
    programs = programs_of(moves, len(members), elements)
    return _Execution([member.device for member in members], gradients, wire, programs, elements).means()


def mean_of_top_k(
    moves_of: MovesOf, members: Members, gradients: Sequence[Any], wire: Wire, kept: KeptCounts
) -> list[list[Any]]:
    """Like `mean_by_moves`, for gradients whose length is one of the counts of `kept` and known only at run time."""
    if len(members) == 1:
        return [[gradients[0]]]
    moves = [moves_of(members.topology, count, gradients[0].dtype.size) for count in kept.counts]
    spans = RunTimeSpans(kept, moves)
    programs = programs_of(spans.moves, len(members), spans.length)
    devices = [member.device for member in members]
    return _Execution(devices, gradients, wire, programs, spans.length, spans.sizes).means()


@final
class _Execution:
    """The sums and results of every member, from round to round."""

    def __init__(
        self,
        devices: list[str],
        gradients: Sequence[Any],
        wire: Wire,
        programs: Sequence[Program],
        length: int,
        sizes: Sizes | None = None,
    ) -> None:
        """`programs` are for `length` elements; if gradients are not that long, `sizes` returns the spans' lengths."""
        self._devices, self._wire, self._programs, self._sizes = devices, wire, programs, sizes
        self._turns = Turns(devices) if programs[0].in_turns else None
        self._sums: list[dict[Span, Any]] = [{(0, length): gradient} for gradient in gradients]
        self._results: list[dict[Span, Message]] = [{} for _ in devices]

    def means(self) -> list[list[Any]]:
        """Run the programs; return the mean on every member, in flat pieces."""
        for rounds in zip(*(program.rounds for program in self._programs), strict=True):
            self._sum(rounds)
            self._share(rounds)
            if self._turns is not None:
                self._turns.next()
        return [
            read([results[span] for span in sorted(results)], device)
            for results, device in zip(self._results, self._devices, strict=True)
        ]

    def _sum(self, rounds: Sequence[ProgramRound]) -> None:
        """Carry out a round's cuts and additions."""
        for member, steps in enumerate(rounds):
            for division in steps.cuts:
                self._cut(member, division)
        sent = {
            (source, target, span): self._sums[source].pop(span)
            for source, steps in enumerate(rounds)
            for target, span in steps.sums_sent
        }
        for target, steps in enumerate(rounds):
            sums, device = self._sums[target], self._devices[target]
            for source, span in steps.added:
                partial_sum = sent[source, target, span]
                if self._turns is not None:
                    partial_sum = self._turns.hold_back(source, span, partial_sum)
                sums[span] = self._wire.add(partial_sum, self._devices[source], sums[span], device)
                if self._turns is not None:
                    self._turns.note(source, target, span, sums[span])

    def _share(self, rounds: Sequence[ProgramRound]) -> None:
        """Carry out a round's finished means, joins and copies."""
        for member, steps in enumerate(rounds):
            results, device = self._results[member], self._devices[member]
            for span in steps.finished:
                mean = scale(self._sums[member].pop(span), 1.0 / len(self._devices), device)
                results[span] = self._wire.message(mean, device)
            for span, parts in steps.joins:
                results[span] = join_messages([results.pop(part) for part in parts], device)
        sent = {
            (source, target, span): self._results[source][span]
            for source, steps in enumerate(rounds)
            for target, span in steps.results_sent
        }
        for target, steps in enumerate(rounds):
            results, sent_on = self._results[target], self._programs[target].outgoing_results
            for source, span in steps.copied:
                message = sent[source, target, span]
                # A member that forwards a result needs it on its own device first; others can read it in place.
                is_held = self._turns is not None or span in sent_on
                results[span] = message.at(self._devices[target]) if is_held else message
                if self._turns is not None:
                    self._turns.note_mean(target, results[span].payload)

    def _cut(self, member: int, division: Division) -> None:
        span, parts = division
        whole, device = self._sums[member].pop(span), self._devices[member]
        if self._sizes is None:
            tensors = cut(whole, [end - begin for begin, end in parts], device)
        else:
            tensors = cut_at_run_time(whole, self._sizes(parts, device), len(parts), device)
        self._sums[member].update(zip(parts, tensors, strict=True))
