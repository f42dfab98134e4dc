"""PowerSGD exchanges: matrices are sent as two thin factors (Vogels, Karimireddy and Jaggi 2019, algorithms 1 and 2).

The notation and the semantics are those of `engine/tensorflow/sync/power_sgd.py`: M_r is rank r's gradient plus its
unsent rest, P = mean(M_r Q) with orthonormal columns, Q_r = M_r^T P, and the mean gradient is P mean(Q_r)^T. With a
server, mean(Q_r) stays there, and a rank continues from its own Q_r.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import final

import torch

from autosync.engine.core.right_factor import first_right_factor
from autosync.engine.pytorch.exchange import leave
from autosync.engine.pytorch.feedback import UnsentRest, is_finite, memory_name
from autosync.engine.pytorch.orthonormal import orthonormal, product
from autosync.engine.pytorch.place import Place
from autosync.engine.pytorch.plan import server_programs
from autosync.engine.pytorch.transport import Action
from autosync.layout.moves import Span
from autosync.layout.shards import Slice
from autosync.spec import PowerSGD


@final
class _Matrix:
    """A gradient on this rank that is sent as two factors."""

    def __init__(self, part: Slice, compressor: PowerSGD, gradient: torch.Tensor) -> None:
        """`gradient` is the slice's view of the bucket's array."""
        shape = compressor.matrix(part.shape)
        assert shape is not None
        self.rows, self.columns = shape
        self._part = part
        self._gradient = gradient.view(shape)
        self._feedback = UnsentRest([part], gradient.dtype)
        self._right = torch.from_numpy(first_right_factor(part, compressor))
        self._total = torch.empty(0)

    @property
    def memory(self) -> Mapping[str, torch.Tensor]:
        return {**self._feedback.memory, memory_name(self._part, "right"): self._right}

    def left(self) -> torch.Tensor:
        """M Q of this step, (rows, rank)."""
        self._total = self._feedback.add(self._gradient.view(-1)).view(self._gradient.shape)
        return self._total @ self._right

    def right(self, left: torch.Tensor) -> torch.Tensor:
        """M^T P for `left` P, (columns, rank)."""
        return self._total.T @ left

    def decode(self, left: torch.Tensor, right: torch.Tensor) -> None:
        """Set the gradient to P Q^T."""
        self._gradient.copy_(product(left, right))

    def keep(self, left: torch.Tensor, right: torch.Tensor) -> None:
        """Remember the rest that P Q^T leaves, and begin the next step from Q.

        A column of Q stays unchanged where the column of P is zero.
        """
        self._total -= product(left, right)
        self._feedback.keep()
        self._right.copy_(torch.where((left == 0).all(0), self._right, right))


@final
class PowerSGDAllReduce:
    """All-reduces the left factors together with all gradients that are not factored, and then the right factors."""

    def __init__(self, place: Place, compressor: PowerSGD) -> None:
        """At least one slice of the bucket must be a matrix that is worth factoring."""
        pairs = list(zip(place.bucket.slices, place.views, strict=True))
        self._place = place
        self._matrices = [_Matrix(part, compressor, view) for part, view in pairs if compressor.matrix(part.shape)]
        self._wholes = [view.view(-1) for part, view in pairs if not compressor.matrix(part.shape)]
        rank, dtype = compressor.rank, place.array.dtype
        left_sizes = [matrix.rows * rank for matrix in self._matrices]
        first = torch.empty(sum(left_sizes) + sum(map(len, self._wholes)), dtype=dtype)
        second = torch.empty(sum(matrix.columns for matrix in self._matrices) * rank, dtype=dtype)
        lefts = first.split([*left_sizes, len(first) - sum(left_sizes)])
        self._lefts = [left.view(-1, rank) for left in lefts[:-1]]
        self._sent_wholes = lefts[-1]
        rights = second.split([matrix.columns * rank for matrix in self._matrices])
        self._rights = [right.view(-1, rank) for right in rights]
        self._first, self._second = place.of(first).all_reduce(), place.of(second).all_reduce()

    @property
    def memory(self) -> Mapping[str, torch.Tensor]:
        return {name: tensor for matrix in self._matrices for name, tensor in matrix.memory.items()}

    def start(self, step: int, priority: float, done: Action) -> None:
        for matrix, left in zip(self._matrices, self._lefts, strict=True):
            left.copy_(matrix.left())
        if self._wholes:
            torch.cat(self._wholes, out=self._sent_wholes)
        self._first.start(step, priority, partial(self._send_right, step, priority, done))

    def _send_right(self, step: int, priority: float, done: Action) -> None:
        for matrix, left, right in zip(self._matrices, self._lefts, self._rights, strict=True):
            left.copy_(orthonormal(left))
            right.copy_(matrix.right(left))
        self._second.start(step, priority, partial(self._end, done))

    def _end(self, done: Action) -> None:
        wholes = self._sent_wholes.split([len(whole) for whole in self._wholes])
        for whole, mean in zip(self._wholes, wholes, strict=True):
            whole.copy_(mean)
        triples = list(zip(self._matrices, self._lefts, self._rights, strict=True))
        for matrix, left, right in triples:
            matrix.decode(left, right)
        if is_finite(self._place.array):
            for matrix, left, right in triples:
                matrix.keep(left, right)
        done()


@final
class PowerSGDServer:
    """Sums left factors on their way to the server, which sends them back orthonormal, and then sums right factors."""

    def __init__(self, place: Place, compressor: PowerSGD) -> None:
        """The bucket must be one matrix that is worth factoring."""
        (part,), (gradient,) = place.bucket.slices, place.views
        server, topology = place.server, place.bucket.topology
        assert server is not None
        self._place = place
        self._matrix = _Matrix(part, compressor, gradient)
        self._left = torch.empty(self._matrix.rows, compressor.rank, dtype=gradient.dtype)
        self._own_right = torch.empty(self._matrix.columns, compressor.rank, dtype=gradient.dtype)
        self._sum_of_rights = torch.empty_like(self._own_right)
        lefts, rights = place.of(self._left.view(-1)), place.of(self._sum_of_rights.view(-1))
        # Left factors go back straight to each replica, as the layout counts them.
        both_ways = server_programs(replace(server, local_copy=False), topology, len(lefts.array))
        self._lefts = lefts.exchange(both_ways, self._orthonormalize)
        self._rights = rights.exchange(server_programs(server, topology, len(rights.array), answers=False), leave)
        self._answer = place.answer()

    @property
    def memory(self) -> Mapping[str, torch.Tensor]:
        return self._matrix.memory

    def start(self, step: int, priority: float, done: Action) -> None:
        self._left.copy_(self._matrix.left())
        self._lefts.start(step, priority, partial(self._send_right, step, priority, done))

    def _orthonormalize(self, span: Span) -> None:
        assert span == (0, self._left.numel()), "a server's message is whole"
        self._left.copy_(orthonormal(self._left))

    def _send_right(self, step: int, priority: float, done: Action) -> None:
        self._own_right.copy_(self._matrix.right(self._left))
        self._sum_of_rights.copy_(self._own_right)
        self._rights.start(step, priority, partial(self._send_mean, step, priority, done))

    def _send_mean(self, step: int, priority: float, done: Action) -> None:
        if self._place.adds_up:
            self._matrix.decode(self._left, self._sum_of_rights)
        self._answer.start(step, priority, partial(self._end, done))

    def _end(self, done: Action) -> None:
        if is_finite(self._place.array):
            self._matrix.keep(self._left, self._own_right)
        done()
