"""Hooks that hand gradients to their buckets during the backward pass, and put the means of all replicas in place."""

from __future__ import annotations

import atexit
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import final

import torch
from torch import nn

from autosync.engine.pytorch.bucket import Bucket
from autosync.engine.pytorch.deferred import DeferredUpdates
from autosync.engine.pytorch.exchange import leave
from autosync.engine.pytorch.exchanges import ExchangeFactory
from autosync.engine.pytorch.factors import FactorTaps
from autosync.engine.pytorch.holders import HolderUpdates
from autosync.engine.pytorch.late import check_reads_are_seen
from autosync.engine.pytorch.lookups import ApartLookups
from autosync.engine.pytorch.placed_exchanges import PlacedExchanges
from autosync.engine.pytorch.plan import ExchangePlan, broadcast_program
from autosync.engine.pytorch.rows import TableShard
from autosync.engine.pytorch.transport import RankLink, TransportError
from autosync.engine.pytorch.values import ValueExchange
from autosync.errors import SpecError
from autosync.layout.apart import rows_of

ROWS_PRIORITY = -1.0
"""Rows of tables go before buckets: there are few of them, and they are the last gradients of a backward pass."""

PlanOf = Callable[[Sequence[str]], ExchangePlan]
"""Plan the exchanges of parameters whose gradients become ready in the order of these names."""


@final
class GradientSynchronizer:
    """Synchronizes the gradients of a module's parameters in every backward pass.

    Each parameter has a hook that runs once its gradient is complete. The last gradient of a bucket starts the bucket's
    exchange, while the backward pass goes on. `backward()` returns when every `grad` is the mean over all replicas, so
    clipping, loss scaling and the user's optimizer work as on one process.

    With an optimizer, `backward()` leaves the mean of an element at its holders alone; the optimizer's step updates
    this rank's elements, and returns when the parameters have the new values of all elements (`holders.py`).

    If communication overlaps with the next forward pass, neither `backward()` nor the optimizer's step waits: the first
    read of a parameter in the next forward pass does (`deferred.py`; with an optimizer, `values.py`).
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        plan_of: PlanOf,
        transport: RankLink,
        ranks: Sequence[int],
        *,
        unused: str = "error",
        timeout_seconds: float = 600.0,
        order: Sequence[str] | None = None,
        reads: Sequence[str] | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        overlaps: bool = False,
        module: nn.Module | None = None,
        rows_apart: Sequence[str] = (),
    ) -> None:
        """`ranks[m]` is the rank of the strategy's replica m.

        A parameter without a gradient in a backward pass is an error, or counts as zeros (`unused` is "error" or
        "zeros"). A step whose exchanges take longer than `timeout_seconds` fails. `order` has the parameters' names in
        the order in which gradients become ready, the same on all ranks; without it, the first backward pass of rank 0
        tells the order. With `overlaps`, communication overlaps with the next forward pass, which reads the
        parameters in the order of the names `reads`; without names, in the reverse of `order`. Raises `SpecError` if
        the `optimizer` cannot update its parameters in parts. A strategy with sufficient factors, or with `rows_apart`
        (the names of the tables), needs the `module` that has the parameters.
        """
        if rows_apart and optimizer is not None:
            raise SpecError(
                f"The looked-up rows of parameter {rows_apart[0]!r} are added to its mean gradient on every rank, but "
                "with optimizer= a rank has its own elements alone; leave out optimizer=, or set rows_apart to false."
            )
        self.rows_apart = tuple(rows_apart)
        self._updated = tuple(parameters.values())
        # `module or nn.Module()` would ask a compiled module for its length, which it may lack.
        looked_in = nn.Module() if module is None else module
        self._lookups = ApartLookups(looked_in, {name: parameters[name] for name in rows_apart})
        self._keeps_rows = False
        """Whether looked-up rows stay apart while gradients are left unsynchronized."""
        self.parameters = {**parameters, **self._lookups.named}
        """All parameters that get gradients of their own, by name, with those of looked-up rows that are sent apart."""
        self._names = {parameter: name for name, parameter in self.parameters.items()}
        self._plan_of = plan_of
        self._transport = transport
        self._ranks = tuple(ranks)
        self._unused = unused
        self._timeout = timeout_seconds
        self._is_enabled = True
        self._in_backward = False
        self._step = 0
        self._started = 0
        """Exchanges begun so far; only the thread of the backward pass writes it."""
        self._ended = 0
        """Exchanges completed so far; only the transport's thread writes it, so neither counter needs a lock."""
        self._seen: dict[nn.Parameter, None] = {}
        """The parameters whose gradients the current backward pass has completed, in this order."""
        self.values: ValueExchange | None = None
        """The exchange of updated values; None if every rank updates all parameters."""
        if optimizer is not None:
            holders = HolderUpdates(optimizer, self._names, self._share)
            self.values = ValueExchange(holders, transport, timeout_seconds, overlaps, self._after_values)
        if overlaps and module is not None:
            check_reads_are_seen(module)
        self.deferred = DeferredUpdates(self) if overlaps and optimizer is None else None
        """The updates that wait for late means; None if steps end with a barrier."""
        self._reads = reads
        self._knows_order = order is not None
        self._place(list(reversed(self.parameters)) if order is None else order)
        factored = [weight for weight, parts in self._placed.parts.items() if parts[0].bucket.plan.is_factored]
        self.taps = FactorTaps(nn.Module() if module is None else module, factored)
        self._handles = [parameter.register_post_accumulate_grad_hook(self._on_gradient) for parameter in self._names]
        if self.deferred is not None:
            atexit.register(self._settle_at_exit)

    @contextmanager
    def paused(self, keeps_rows: bool = False) -> Iterator[None]:
        """Leave gradients unsynchronized in the block, to accumulate them over several backward passes.

        With `keeps_rows`, looked-up rows that are sent apart stay in the `grad` of their own parameter.
        """
        before = self._is_enabled, self._keeps_rows
        self._is_enabled, self._keeps_rows = False, keeps_rows
        try:
            yield
        finally:
            self._is_enabled, self._keeps_rows = before

    @contextmanager
    def backward_pass(self) -> Iterator[Callable[[nn.Parameter, torch.Tensor], None]]:
        """A backward pass whose gradients come from the caller, who calls the yielded function with each of them."""
        self._begin_backward()
        yield self._complete
        self._end_backward()

    @property
    def memory(self) -> dict[str, torch.Tensor]:
        """The state of this rank's compressors between steps, by name: the tensors themselves, not copies.

        The names contain the parameters' names. To continue a run with the same strategy, copy saved tensors to these.
        """
        return self._placed.memory

    def broadcast(self, tensors: Sequence[torch.Tensor]) -> None:
        """Give the tensors of rank 0 to all other ranks. Raises `TransportError`."""
        for tensor in tensors:
            flat = tensor.detach().to(self._transport.device).contiguous().view(-1)
            if not flat.numel():
                continue
            ranks = range(self._transport.size)
            program = broadcast_program(self._transport.rank, len(ranks), flat.numel())
            exchange = ExchangeFactory(self._transport, ranks).of_program(program, flat, flat, leave)
            self._run(partial(exchange.start, 0, 0.0, self._end))
            if flat.data_ptr() != tensor.data_ptr():
                with torch.no_grad():
                    tensor.copy_(flat.view(tensor.shape))

    def clip(self, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> torch.Tensor:
        """Scale all mean gradients so that their joint norm is at most `max_norm`; return the norm before.

        All ranks call this together. Raises `RuntimeError` for a norm that is not finite if that is an error.
        """
        if self.values is None:
            return nn.utils.clip_grad_norm_(self._updated, max_norm, norm_type, error_if_nonfinite)
        return self.values.holders.clip(max_norm, norm_type, error_if_nonfinite)

    def undo(self) -> None:
        """Remove all hooks, give the whole state back to the optimizer, and end the transport.

        All ranks call this together if the optimizer's state is split. Raises `TransportError`.
        """
        self.settle()
        if self.values is not None:
            self.values.undo()
        self.remove_hooks()
        self._transport.close()

    def settle(self) -> None:
        """Wait until all parameters have their new values. Raises `TransportError`."""
        if self.values is not None:
            self.values.settle()
        if self.deferred is not None:
            self.deferred.settle()
            self._wait()

    def remove_hooks(self) -> None:
        """Leave backward passes alone from now on. The transport stays, for another synchronizer."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self.taps.remove()
        self._lookups.remove()
        if self.values is not None:
            self.values.remove_hooks()
        if self.deferred is not None:
            atexit.unregister(self._settle_at_exit)
            self.deferred.abandon()

    def _place(self, order: Sequence[str]) -> None:
        """Make the buckets for gradients that become ready in `order`."""
        plan, halfway = self._plan_of(order), self.values is not None
        self._placed = PlacedExchanges(
            plan,
            self.parameters,
            self._lookups.rows,
            (self._transport, self._ranks),
            self._priorities(plan, order),
            stops_halfway=halfway,
            has_barrier=self.deferred is None,
        )
        if self.values is not None:
            self.values.place(self._placed.buckets, self._ranks)

    def _priorities(self, plan: ExchangePlan, order: Sequence[str]) -> list[float]:
        """The priorities of the buckets: their own order, or without a barrier that of their first reads."""
        if self.deferred is None:
            return [float(number) for number in range(len(plan.buckets))]
        reads = list(reversed(order)) if self._reads is None else self._reads
        places = {name: float(place) for place, name in enumerate(reads)}
        for table in self.rows_apart:  # read by the lookups first
            places[table] = min(places[table], places.get(rows_of(table), math.inf))
        return [min(places[part.variable.name] for part in bucket.slices) for bucket in plan.buckets]

    def _on_gradient(self, parameter: nn.Parameter) -> None:
        if not self._is_enabled:
            if not self._keeps_rows:
                self._lookups.fold(parameter)
            return
        if not self._in_backward:
            self._begin_backward()
            # The only way to act at the end of `backward()`; DistributedDataParallel does the same.
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)
        assert parameter.grad is not None
        self._complete(parameter, parameter.grad)

    def _complete(self, parameter: nn.Parameter, gradient: torch.Tensor) -> None:
        """Take a gradient that is complete. Raises `RuntimeError` if the parameter had one in this backward pass."""
        if parameter in self._seen:
            raise RuntimeError(
                f"Parameter {self._names[parameter]!r} got its gradient twice in one backward pass, as reentrant "
                "checkpointing does; use torch.utils.checkpoint with use_reentrant=False."
            )
        self._seen[parameter] = None
        self._take(parameter, gradient)
        self._lookups.forget(parameter)

    def _begin_backward(self) -> None:
        if self.values is not None and self.values.is_due:
            self.values.skip_update()  # first: a rank that found the same fault has closed its connections
        if self._transport.error is not None:
            raise self._transport.error
        if self.deferred is not None:
            self.deferred.begin_step()
        self._in_backward = True
        self._step += 1
        self._seen = {}

    def _take(self, parameter: nn.Parameter, gradient: torch.Tensor) -> None:
        """Copy a gradient to its buckets, and start those that are full."""
        shards = self._placed.tables.get(parameter, [])
        if gradient.is_sparse != bool(shards):
            raise RuntimeError(
                f"Parameter {self._names[parameter]!r} has a {'sparse' if gradient.is_sparse else 'dense'} gradient, "
                "which its modules do not tell; only tables that are read by nn.Embedding(sparse=True) alone, or by "
                "nn.EmbeddingBag(sparse=True) alone, may have sparse gradients."
            )
        if shards:
            gradient = gradient.coalesce()
            self.wait_for_mean(parameter)  # of the last step
            for shard in shards:
                self._started += 1
                shard.is_running = True
                end, rows = partial(self._end_rows, shard), shard.of(gradient)
                self._transport.call(partial(shard.exchange.start, self._step, ROWS_PRIORITY, rows, end))
            return
        for part in self._placed.parts[parameter]:
            if self.values is not None:
                self.values.wait_until_sent(part.bucket)
            self._wait_until(part.bucket.has_room)
            if part.bucket.plan.is_factored:
                name = self._names[parameter]
                part.bucket.factors[name] = self.taps.take(parameter).checked(name, gradient)
            else:
                part.fill(gradient)
            part.bucket.missing -= 1
            if not part.bucket.missing:
                self._start(part.bucket)

    def _start(self, bucket: Bucket) -> None:
        self._started += bucket.exchanges
        bucket.start(self._step, self._end)

    def _end(self) -> None:
        """Count the end of an exchange; called in the transport's thread."""
        self._ended += 1
        self._transport.notify()

    def _end_rows(self, shard: TableShard) -> None:
        shard.is_running = False
        self._end()

    def _run(self, action: Callable[[], None]) -> None:
        """Run an action that begins one exchange, and wait for its end."""
        self._started += 1
        self._transport.call(action)
        self._wait()

    def _share(self, data: bytes) -> Sequence[bytes]:
        return self._transport.share(data, self._timeout)

    def _wait(self) -> None:
        self._wait_until(lambda: self._ended == self._started)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        if not condition():
            self._transport.wait_for(condition, self._timeout)

    def _end_backward(self) -> None:
        """Wait for all exchanges, and make the means the parameters' gradients."""
        self._in_backward = False
        missing = [parameter for parameter in self._names if parameter not in self._seen]
        if missing and self._unused == "error":
            self._transport.close()  # the other ranks would wait for these gradients
            names = ", ".join(repr(self._names[parameter]) for parameter in missing[:3])
            raise RuntimeError(
                f"{len(missing)} parameters got no gradient in this backward pass ({names}); freeze them with "
                "requires_grad_(False), or pass unused='zeros' to count them as zero."
            )
        for parameter in missing:
            self._take(parameter, self._unused_gradient(parameter))
        if self.deferred is not None and self._knows_order:
            self.deferred.await_means(self._updated)
            return
        try:
            self._wait()
        except TransportError:
            self._transport.close()
            raise
        if self.values is not None:
            self.values.begin_update()
        for parameter in self._placed.tables if self.values is not None else self._updated:
            self.put_mean(parameter)
        if self.values is None:
            self._after_values()

    def has_arrived(self, parameter: nn.Parameter) -> bool:
        """Whether the parameter's whole mean is here."""
        return self._placed.has_arrived(parameter)

    def wait_for_mean(self, parameter: nn.Parameter) -> None:
        """Wait until the parameter's whole mean is here. Raises `TransportError`."""
        self._wait_until(partial(self.has_arrived, parameter))

    def put_mean(self, parameter: nn.Parameter) -> None:
        """Make the mean, which is here, the parameter's `grad`."""
        self._placed.put_mean(parameter)

    def _settle_at_exit(self) -> None:
        """Take part in the last exchanges before the process ends, because other ranks wait for them."""
        with suppress(TransportError):
            self.settle()

    def _after_values(self) -> None:
        if not self._knows_order:
            self._learn_order()

    def _unused_gradient(self, parameter: nn.Parameter) -> torch.Tensor:
        """The gradient of a parameter that this backward pass has not reached: the accumulated one, or zeros."""
        if parameter.grad is not None:
            return parameter.grad
        if parameter in self._placed.tables:
            return torch.zeros_like(parameter, layout=torch.sparse_coo)
        return torch.zeros_like(parameter)

    def _learn_order(self) -> None:
        """Make the buckets again for the order in which rank 0 completed its gradients in the first backward pass."""
        self._knows_order = True
        numbers = {name: number for number, name in enumerate(self.parameters)}
        order = torch.tensor([numbers[self._names[parameter]] for parameter in self._seen], dtype=torch.int64)
        if len(order) < len(numbers):
            missing = set(range(len(numbers))) - set(order.tolist())
            order = torch.cat([order, torch.tensor(sorted(missing), dtype=torch.int64)])
        self.broadcast([order])
        names = list(self.parameters)
        before = self.memory
        self._place([names[number] for number in order.tolist()])
        for name, tensor in self.memory.items():
            tensor.copy_(before[name])
