"""Exchanges of sparse gradients: only the rows of a table that a step has touched are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, final

import torch

from autosync.engine.pytorch.parts import PartExchange
from autosync.engine.pytorch.plan import PlannedRows
from autosync.engine.pytorch.transport import Action, RankTransport
from autosync.engine.pytorch.wire import PLAIN, WireForm
from autosync.layout.gather import Gather, Handing
from autosync.layout.shards import MOST_SHORT_IDS


class RowExchange(Protocol):
    """Turns the ranks' sparse gradients of a shard into their mean, once per step; all ranks get the same bits."""

    def start(self, step: int, priority: float, gradient: torch.Tensor, done: Action) -> None:
        """Begin step `step` with this rank's coalesced `gradient`; call in the transport's thread.

        `done` runs once the mean is known and all messages are sent.
        """
        ...

    def mean(self) -> torch.Tensor:
        """The mean of the last step's gradients, as a coalesced sparse tensor."""
        ...


@final
class RowGather:
    """Every rank gets the rows of all ranks, by the messages of `layout/gather.py`, and adds them up itself.

    A rank sums the rows in the order of the replicas, its own as they travel, so all ranks get the same bits.
    """

    def __init__(
        self,
        transport: RankTransport,
        gather: Gather,
        ranks: Sequence[int],
        table: torch.Tensor,
        wire: WireForm = PLAIN,
    ) -> None:
        """`ranks[r]` is the rank of replica r; `table` has the shape and dtype of the gradients."""
        self._form = RowForm(table, wire)
        handings = [handing for handings in gather.rounds for handing in handings]
        self._gathering = PartExchange(transport, ranks, handings)

    def start(self, step: int, priority: float, gradient: torch.Tensor, done: Action) -> None:
        self._gathering.start(step, priority, self._form.pack(gradient), done)

    def mean(self) -> torch.Tensor:
        return self._form.mean(self._gathering.in_order)


@final
class RowServer:
    """One rank adds up the rows of all ranks, and sends the mean of each touched row to all, in full precision."""

    def __init__(
        self, transport: RankTransport, server: int, ranks: Sequence[int], table: torch.Tensor, wire: WireForm = PLAIN
    ) -> None:
        """`server` is the replica that adds up; the other arguments are as for `RowGather`."""
        self._server = server
        self._is_here = ranks[server] == transport.rank
        self._pushed, self._answered = RowForm(table, wire), RowForm(table)
        others = [replica for replica in range(len(ranks)) if replica != server]
        self._pushing = PartExchange(transport, ranks, [Handing(replica, replica, server) for replica in others])
        self._answering = PartExchange(transport, ranks, [Handing(server, server, replica) for replica in others])

    def start(self, step: int, priority: float, gradient: torch.Tensor, done: Action) -> None:
        def answer() -> None:
            mean = self._pushed.mean(self._pushing.in_order) if self._is_here else None
            message = memoryview(b"") if mean is None else self._answered.pack(mean)
            self._answering.start(step, priority, message, done, self._server)

        self._pushing.start(step, priority, self._pushed.pack(gradient), answer)

    def mean(self) -> torch.Tensor:
        return self._answered.mean([self._answering.parts[self._server]])


@final
class TableShard:
    """Consecutive rows of a table with sparse gradients, and their exchange."""

    def __init__(self, planned: PlannedRows, exchange: RowExchange) -> None:
        self.exchange = exchange
        self.is_running = False
        """Whether the exchange has begun and has not ended."""
        self._begin, self._end = planned.slice.start, planned.slice.start + planned.slice.size

    def of(self, gradient: torch.Tensor) -> torch.Tensor:
        """The part of a coalesced sparse gradient of the table that is in these rows, in the table's shape."""
        if self._end - self._begin == gradient.shape[0]:
            return gradient
        rows, values = gradient.indices()[0], gradient.values()
        inside = (rows >= self._begin) & (rows < self._end)
        part = torch.sparse_coo_tensor(rows[None, inside], values[inside], gradient.shape, check_invariants=False)
        return part.coalesce()


class Rows(NamedTuple):
    """Touched rows of a table: their `numbers`, int64 (n,), and their gradients, `values` (n, ...)."""

    numbers: torch.Tensor
    values: torch.Tensor

    @staticmethod
    def of(gradient: torch.Tensor) -> Rows:
        """The rows of a coalesced sparse gradient."""
        return Rows(gradient.indices()[0].contiguous(), gradient.values().contiguous())

    @staticmethod
    def empty(count: int, table: torch.Tensor) -> Rows:
        """Memory for `count` rows of `table`."""
        numbers = torch.empty(count, dtype=torch.int64, device=table.device)
        return Rows(numbers, torch.empty((count, *table.shape[1:]), dtype=table.dtype, device=table.device))


def mean_of_rows(parts: Sequence[Rows], shape: torch.Size) -> torch.Tensor:
    """The sum of sparse gradients of a table of `shape`, added in their order, over their number."""
    numbers = torch.cat([part.numbers for part in parts])
    values = torch.cat([part.values for part in parts]) * (1.0 / len(parts))
    return torch.sparse_coo_tensor(numbers[None], values, shape, check_invariants=False).coalesce()


@final
class RowForm:
    """The bytes of touched rows: their numbers (n,), and then a message of their gradients (n, ...).

    Numbers are int32 where int32 can count the table's rows, as `layout/shards.py` predicts.
    """

    def __init__(self, table: torch.Tensor, wire: WireForm = PLAIN) -> None:
        self._table, self._wire = table.detach(), wire
        self._number_type = torch.int32 if len(table) <= MOST_SHORT_IDS else torch.int64
        value_bytes = wire.size(table.shape[1:].numel(), table.dtype) - wire.scale_bytes
        self._row_bytes = self._number_type.itemsize + value_bytes

    def pack(self, gradient: torch.Tensor) -> memoryview:
        """The bytes of a coalesced sparse gradient."""
        numbers, values = Rows.of(gradient)
        message = self._wire.buffer(values.view(-1))
        self._wire.write(values.view(-1), message)
        return torch.cat([numbers.to(self._number_type).view(torch.uint8), message]).numpy().data

    def mean(self, parts: Sequence[memoryview]) -> torch.Tensor:
        """The sum of sparse gradients, added in their order, over their number."""
        return mean_of_rows([self._unpack(part) for part in parts], self._table.shape)

    def _unpack(self, data: memoryview) -> Rows:
        count = (len(data) - self._wire.scale_bytes) // self._row_bytes
        if not count:
            return Rows.empty(0, self._table)
        numbers = torch.frombuffer(data, dtype=self._number_type, count=count)
        # A copy, because the values may begin in the middle of a word.
        values = torch.frombuffer(data, dtype=torch.uint8, offset=count * self._number_type.itemsize).clone()
        return Rows(numbers.long(), self._wire.read(values, self._table.dtype).view(count, *self._table.shape[1:]))
