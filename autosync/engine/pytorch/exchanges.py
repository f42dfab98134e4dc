"""The exchanges of a plan, made for the transport of the ranks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol, final

import torch

from autosync.engine.pytorch.exchange import Finish, GradientExchange, ProgramExchange
from autosync.engine.pytorch.group_exchange import GroupAllReduce, GroupExchange
from autosync.engine.pytorch.group_rows import GroupRowGather, GroupRowServer
from autosync.engine.pytorch.group_transport import GroupTransport
from autosync.engine.pytorch.parts import PartExchange
from autosync.engine.pytorch.plan import PlannedRows
from autosync.engine.pytorch.rows import RowExchange, RowGather, RowServer
from autosync.engine.pytorch.step_order import StepOrder
from autosync.engine.pytorch.transport import Action, Collectives, RankLink, RankTransport, TransportError
from autosync.engine.pytorch.wire import PLAIN, CastResults, WireForm
from autosync.layout.gather import Handing
from autosync.layout.span_program import Program


class FlatExchange(Protocol):
    """Turns the ranks' sums into results, once per step."""

    def start(self, step: int, priority: float, done: Action) -> None:
        """Begin step `step`; call in the transport's thread. `done` runs once the arrays may be overwritten."""
        ...


class HalfwayExchange(GradientExchange, Protocol):
    """An exchange that may stop halfway, when this rank has finished its spans."""

    @property
    def has_results(self) -> bool:
        """Whether all results of other ranks are here. The transport's `notify` tells a change."""
        ...

    def release(self, priority: float, done: Action) -> None:
        """Go on with a step that has stopped halfway; call in the transport's thread. `done` is as for `start`."""
        ...


@final
class ExchangeFactory:
    """Makes the exchanges of one plan. All ranks make the same exchanges in the same order, and start each once a step.

    `ranks[m]` is the rank of replica m.
    """

    def __init__(self, transport: RankLink, ranks: Sequence[int]) -> None:
        self._transport = transport
        self._ranks = ranks
        self._order, self._releases = StepOrder(), StepOrder()

    def of_program(
        self,
        program: Program,
        sums: torch.Tensor,
        results: torch.Tensor,
        finish: Finish,
        stops_halfway: bool = False,
        wire: WireForm = PLAIN,
        cast_results: CastResults | None = None,
    ) -> HalfwayExchange:
        """The exchange of a flat array; see `ProgramExchange`. Process groups cast nothing."""
        if isinstance(self._transport, GroupTransport):
            assert wire == PLAIN
            assert cast_results is None
            releases = self._releases if stops_halfway else None
            return GroupExchange(self._transport, self._order, program, self._ranks, sums, results, finish, releases)
        return ProgramExchange(
            self._tagged, program, self._ranks, sums, results, finish, stops_halfway, wire, cast_results
        )

    def of_parts(self, handings: Sequence[Handing]) -> PartExchange:
        """The exchange of parts that replicas hand on; see `PartExchange`. Process groups have none."""
        return PartExchange(self._tagged, self._ranks, handings)

    @property
    def has_collectives(self) -> bool:
        """Whether ranks can call PyTorch's own all-reduce."""
        return isinstance(self._transport, GroupTransport) or self._tagged.collectives is not None

    def of_collective(self, array: torch.Tensor, finish: Finish) -> FlatExchange | None:
        """PyTorch's own all-reduce of a flat array, then `finish` of the whole array; None where ranks have none."""
        if isinstance(self._transport, GroupTransport):
            return GroupAllReduce(self._transport, self._order, array, finish)
        collectives = self._tagged.collectives
        return None if collectives is None else _AllReduce(self._transport, collectives, self._order, array, finish)

    def of_rows(self, planned: PlannedRows, table: torch.Tensor) -> RowExchange:
        """The exchange of a table's sparse gradients."""
        server, ranks = self._ranks[planned.server], self._ranks
        if isinstance(self._transport, GroupTransport):
            if planned.gather is None:
                return GroupRowServer(self._transport, self._order, server, ranks, table)
            return GroupRowGather(self._transport, self._order, planned.gather, ranks, table)
        wire = WireForm(planned.cast)
        if planned.gather is None:
            return RowServer(self._tagged, planned.server, ranks, table, wire)
        return RowGather(self._tagged, planned.gather, ranks, table, wire)

    @property
    def _tagged(self) -> RankTransport:
        assert isinstance(self._transport, RankTransport)
        return self._transport


@final
class _AllReduce:
    """PyTorch's own all-reduce, next to a transport. All ranks start their all-reduces in one order."""

    def __init__(
        self,
        transport: RankLink,
        collectives: Collectives,
        order: StepOrder,
        array: torch.Tensor,
        finish: Finish,
    ) -> None:
        self._transport = transport
        self._collectives = collectives
        self._order = order
        self._number = order.number()
        self._array = array
        self._finish = finish

    def start(self, step: int, priority: float, done: Action) -> None:
        del step, priority
        self._order.offer(self._number, partial(self._begin, done))

    def _begin(self, done: Action) -> None:
        def end(error: Exception | None) -> None:
            if error is not None:
                raise TransportError(f"PyTorch's all-reduce failed: {error}")
            self._finish((0, len(self._array)))
            done()

        self._collectives.all_reduce(self._array, lambda error: self._transport.call(partial(end, error)))
