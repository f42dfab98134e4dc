"""The program of each member of an exchange: the spans of its array to send, add, finish and copy in each round.

`Moves` are the messages of all members of an all-reduce or of a parameter server. To finish a span is to turn its
complete sum into the mean, or into updated values. A program is one member's part, as data, and needs no framework. An
engine that runs all members in one graph executes all programs, an engine with one process per replica executes the
program of its replica, and tests execute programs on NumPy arrays. If every member has one flat array, a program runs
in place: a span of the array is a view, so the engine may skip `cuts` and `joins`, which serve engines with immutable
tensors.

A parameter server is an all-reduce whose sums all end at one member (`server_moves`). The two differ in the update.
With a server, the member that completes a sum updates the variable and sends the new values. In an all-reduce, this
member sends the mean, and every member updates.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from autosync.layout.exchange import Processes
from autosync.layout.moves import Move, Moves, Round, Span


class SpanMessage(NamedTuple):
    """The elements of `span` go to, or come from, the member `peer`."""

    peer: int
    span: Span


class Division(NamedTuple):
    """A `span` and its `parts`, in order and end to end."""

    span: Span
    parts: tuple[Span, ...]


@dataclass(frozen=True)
class ProgramRound:
    """One member's steps in a round, in the order of the fields. A result is a finished span."""

    cuts: tuple[Division, ...] = ()
    """Held sums to cut."""

    sums_sent: tuple[SpanMessage, ...] = ()
    """Sums to send, as they are when the round begins."""

    added: tuple[SpanMessage, ...] = ()
    """Arriving sums to add to the member's own, in this order."""

    finished: tuple[Span, ...] = ()
    """Spans whose complete sum the member holds: it computes the mean or updates the values."""

    joins: tuple[Division, ...] = ()
    """Results to join into larger results."""

    results_sent: tuple[SpanMessage, ...] = ()
    """Results to send."""

    copied: tuple[SpanMessage, ...] = ()
    """Arriving results to copy."""


@dataclass(frozen=True)
class Program:
    """The rounds of one member. Programs of one exchange have the same number of rounds."""

    rounds: tuple[ProgramRound, ...]
    in_turns: bool = False
    """Whether a member sends a span of its own only after it has received everything due in the previous round."""

    @cached_property
    def outgoing_results(self) -> frozenset[Span]:
        """The results that the member sends. A result that another member has sent must be kept until it is sent on."""
        return frozenset(span for program_round in self.rounds for _, span in program_round.results_sent)


def programs_of(
    moves: Moves, members: int, elements: int, contributors: Container[int] | None = None
) -> tuple[Program, ...]:
    """The program of every member for `moves` of a bucket of `elements`.

    Only `contributors` have an array of their own in the sum (None: all members). A member without one, such as a
    server without a replica, takes the first arriving sum as its own.
    """
    holdings = [
        _Holding({(0, elements)} if contributors is None or member in contributors else set())
        for member in range(members)
    ]
    if moves.cuts:
        for holding in holdings:
            holding.cut((0, elements), moves.cuts)
    for adding, copying in moves.round_pairs:
        _sum_round(holdings, adding)
        _result_round(holdings, copying)
        for holding in holdings:
            holding.end_round()
    for holding in holdings:
        holding.finish((0, elements))
        holding.end_round()
    return tuple(Program(tuple(holding.rounds), bool(moves.cuts)) for holding in holdings)


class Served(NamedTuple):
    """The members of a parameter server (devices, the server first) and the moves among them."""

    devices: tuple[str, ...]
    moves: Moves


def server_moves(
    server: str, replicas: Sequence[str], processes: Processes, elements: int, local_copy: bool = False
) -> Served:
    """The moves of a dense shard on `server`: gradients to the server, and values from it.

    Gradients of several replicas on another node are summed on the node's gateway first. With `local_copy`, a value
    crosses to a gateway once, and from there to the node's replicas. Without, it goes directly to each replica.
    """
    node_of, gateway_of = processes.node_of, processes.gateway_of
    by_node: dict[str, list[str]] = {}
    for replica in replicas:
        by_node.setdefault(node_of[replica], []).append(replica)
    away = {node: on_node for node, on_node in by_node.items() if node != node_of[server]}
    summed = {gateway_of[node] for node, on_node in away.items() if len(on_node) > 1}
    copies = {gateway_of[node] for node in away} if local_copy else set()
    devices = tuple(dict.fromkeys([server, *replicas, *sorted(summed | copies)]))
    number, whole = {device: place for place, device in enumerate(devices)}, (0, elements)

    def by_way_of(gateways: set[str]) -> tuple[Round, Round]:
        """Moves from replicas to `gateways`, and moves from the gateways and all other replicas to the server."""
        to_gateways, to_server = [], []
        for node, on_node in by_node.items():
            gateway = gateway_of[node]
            through = node in away and gateway in gateways
            sources = [gateway] if through else on_node
            to_gateways += [Move(number[replica], number[gateway], whole) for replica in on_node if through]
            to_server += [Move(number[source], number[server], whole) for source in sources]
        return _across_members(to_gateways), _across_members(to_server)

    values = [tuple(Move(move.target, move.source, whole) for move in moves) for moves in reversed(by_way_of(copies))]
    return Served(devices, Moves(_not_empty(by_way_of(summed)), _not_empty(values)))


def _across_members(moves: Iterable[Move]) -> Round:
    """The `moves` that lead from one member to another."""
    return tuple(move for move in moves if move.source != move.target)


def _not_empty(rounds: Iterable[Round]) -> tuple[Round, ...]:
    return tuple(filter(None, rounds))


@dataclass
class _Holding:
    """The spans that a member holds while its program is built, the rounds so far, and the steps of the next round."""

    sums: set[Span]
    results: set[Span] = field(default_factory=set)
    rounds: list[ProgramRound] = field(default_factory=list)
    cuts: list[Division] = field(default_factory=list)
    sums_sent: list[SpanMessage] = field(default_factory=list)
    added: list[SpanMessage] = field(default_factory=list)
    finished: list[Span] = field(default_factory=list)
    joins: list[Division] = field(default_factory=list)
    results_sent: list[SpanMessage] = field(default_factory=list)
    copied: list[SpanMessage] = field(default_factory=list)

    def cut(self, span: Span, bounds: Sequence[int]) -> None:
        """Cut the sum that contains `span` at all `bounds` inside that sum. `bounds` are sorted."""
        whole = next(held for held in self.sums if held[0] <= span[0] and span[1] <= held[1])
        inside = bounds[bisect_right(bounds, whole[0]) :]
        parts = tuple(pairwise([whole[0], *(bound for bound in inside if bound < whole[1]), whole[1]]))
        self.sums.remove(whole)
        self.sums.update(parts)
        self.cuts.append(Division(whole, parts))

    def finish(self, span: Span) -> None:
        """Finish the sums inside `span`."""
        whole_sums = sorted(_inside(self.sums, span))
        self.sums.difference_update(whole_sums)
        self.results.update(whole_sums)
        self.finished += whole_sums

    def join(self, span: Span) -> None:
        """Join the results inside `span` into one."""
        if span not in self.results:
            parts = tuple(sorted(_inside(self.results, span)))
            self.results.difference_update(parts)
            self.results.add(span)
            self.joins.append(Division(span, parts))

    def end_round(self) -> None:
        """Append all steps since the last round as a round of the program."""
        steps = (self.cuts, self.sums_sent, self.added, self.finished, self.joins, self.results_sent, self.copied)
        self.rounds.append(
            ProgramRound(
                tuple(self.cuts),
                tuple(self.sums_sent),
                tuple(self.added),
                tuple(self.finished),
                tuple(self.joins),
                tuple(self.results_sent),
                tuple(self.copied),
            )
        )
        for step in steps:
            step.clear()


def _sum_round(holdings: Sequence[_Holding], adding: Round) -> None:
    """Record a round in which every target adds the arriving sum to its own."""
    bounds = sorted({bound for move in adding for bound in move.span})
    spans_of: dict[int, set[Span]] = {}
    for source, target, span in adding:
        spans_of.setdefault(source, set()).add(span)
        spans_of.setdefault(target, set()).add(span)
    for member, spans in spans_of.items():
        holding = holdings[member]
        if spans <= holding.sums or not holding.sums:
            continue
        # A member that sends or receives a span whole does not cut the span where other members cut theirs.
        kept_whole = {bound for begin, end in spans for bound in bounds if begin < bound < end}
        at = [bound for bound in bounds if bound not in kept_whole]
        for span in sorted(spans):
            if span not in holding.sums:
                holding.cut(span, at)
    for source, target, span in adding:
        holdings[source].sums_sent.append(SpanMessage(target, span))
        holdings[source].sums.remove(span)  # the source no longer needs its partial sum
        holdings[target].added.append(SpanMessage(source, span))
    for _, target, span in adding:
        holdings[target].sums.add(span)


def _result_round(holdings: Sequence[_Holding], copying: Round) -> None:
    """Record a round in which results are copied."""
    for source, target, span in copying:
        holdings[source].finish(span)
        holdings[source].join(span)
        holdings[source].results_sent.append(SpanMessage(target, span))
        holdings[target].copied.append(SpanMessage(source, span))
    for _, target, span in copying:
        holdings[target].results.add(span)


def _inside(spans: Iterable[Span], whole: Span) -> list[Span]:
    """The `spans` that lie in `whole`."""
    return [span for span in spans if whole[0] <= span[0] and span[1] <= whole[1]]
