"""Exchanges of sparse gradients over a process group: ranks share the counts of their rows first, and then the rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import final

import torch

from autosync.engine.pytorch.group_transport import GroupTransport
from autosync.engine.pytorch.message_group import Parcel
from autosync.engine.pytorch.rows import Rows, mean_of_rows
from autosync.engine.pytorch.step_order import StepOrder
from autosync.engine.pytorch.transport import Action
from autosync.layout.gather import Gather


@final
class GroupRowGather:
    """Every rank gets the rows of all ranks, like `RowGather` and with the same bits."""

    def __init__(
        self, transport: GroupTransport, order: StepOrder, gather: Gather, ranks: Sequence[int], table: torch.Tensor
    ) -> None:
        """The arguments after `order` are those of `RowGather`."""
        self._group = transport.group
        self._order = order
        self._number = order.number()
        self._ranks = ranks
        self._replica = ranks.index(transport.rank)
        self._table = table
        self._rounds = gather.rounds
        self._gradient: torch.Tensor | None = None
        self._parts: list[Rows] = []

    def start(self, step: int, priority: float, gradient: torch.Tensor, done: Action) -> None:
        del step, priority
        self._gradient = gradient  # kept, because the side stream reads it later
        self._order.offer(self._number, partial(self._run, Rows.of(gradient), done))

    def mean(self) -> torch.Tensor:
        return mean_of_rows(self._parts, self._table.shape)

    def _run(self, own: Rows, done: Action) -> None:
        counts = self._group.gather_counts(len(own.numbers))
        self._parts = [
            own if replica == self._replica else Rows.empty(counts[rank], self._table)
            for replica, rank in enumerate(self._ranks)
        ]
        for handings in self._rounds:
            sends, receives = list[Parcel](), list[Parcel]()
            for part in handings:
                if part.source == self._replica:
                    sends += _parcels(self._ranks[part.target], self._parts[part.origin])
                if part.target == self._replica:
                    receives += _parcels(self._ranks[part.source], self._parts[part.origin])
            self._group.trade(sends, receives)
        done()


@final
class GroupRowServer:
    """One rank adds up the rows of all ranks and sends the mean to all, like `RowServer` and with the same bits."""

    def __init__(
        self, transport: GroupTransport, order: StepOrder, server: int, ranks: Sequence[int], table: torch.Tensor
    ) -> None:
        """The arguments after `order` are those of `RowServer`."""
        self._group = transport.group
        self._order = order
        self._number = order.number()
        self._rank = transport.rank
        self._server = server
        self._ranks = ranks
        self._table = table
        self._gradient: torch.Tensor | None = None
        self._mean = Rows.empty(0, table)

    def start(self, step: int, priority: float, gradient: torch.Tensor, done: Action) -> None:
        del step, priority
        self._gradient = gradient  # kept, because the side stream reads it later
        self._order.offer(self._number, partial(self._run, Rows.of(gradient), done))

    def mean(self) -> torch.Tensor:
        return mean_of_rows([self._mean], self._table.shape)

    def _run(self, own: Rows, done: Action) -> None:
        counts = self._group.gather_counts(len(own.numbers))
        others = [rank for rank in self._ranks if rank != self._server]
        if self._rank == self._server:
            parts = {rank: own if rank == self._rank else Rows.empty(counts[rank], self._table) for rank in self._ranks}
            self._group.trade([], [parcel for rank in others for parcel in _parcels(rank, parts[rank])])
            self._mean = Rows.of(mean_of_rows([parts[rank] for rank in self._ranks], self._table.shape))
            self._group.gather_counts(len(self._mean.numbers))
            self._group.trade([parcel for rank in others for parcel in _parcels(rank, self._mean)], [])
        else:
            self._group.trade(_parcels(self._server, own), [])
            self._mean = Rows.empty(self._group.gather_counts(0)[self._server], self._table)
            self._group.trade([], _parcels(self._server, self._mean))
        done()


def _parcels(peer: int, rows: Rows) -> list[Parcel]:
    return [Parcel(peer, rows.numbers), Parcel(peer, rows.values.view(-1))]
