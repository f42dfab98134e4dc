"""The place of a bucket on this rank: its array, the ranks that take part, and the exchanges they are composed of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import final

import torch

from autosync.engine.pytorch.exchange import Finish
from autosync.engine.pytorch.exchanges import ExchangeFactory, HalfwayExchange
from autosync.engine.pytorch.factors import FactoredGradient
from autosync.engine.pytorch.parts import PartExchange
from autosync.engine.pytorch.plan import PlannedBucket, all_reduce_programs, server_of, server_programs
from autosync.engine.pytorch.wire import PLAIN, CastResults, WireForm
from autosync.layout.gather import Handing, gather_among
from autosync.layout.moves import Span
from autosync.layout.span_program import Program
from autosync.spec import AllReduce, ParameterServer


@final
@dataclass(frozen=True)
class Place:
    """A bucket on this rank."""

    bucket: PlannedBucket
    array: torch.Tensor
    """The flat array: this rank's gradients when a step starts, and the means at its end unless `means` is given."""
    exchanges: ExchangeFactory
    replica: int
    """The number of this rank's replica."""
    factors: Mapping[str, FactoredGradient] = field(default_factory=dict)
    """By variable, this rank's gradients as factors, if these travel instead of gradients."""
    means: torch.Tensor | None = None
    """The flat array of the means, if they have an array of their own."""

    @cached_property
    def server(self) -> ParameterServer | None:
        """The server that adds up; None for an all-reduce."""
        synchronizer = self.bucket.synchronizer
        return synchronizer if isinstance(synchronizer, ParameterServer) else None

    @cached_property
    def adds_up(self) -> bool:
        """Whether this rank gets the gradients of all replicas."""
        if self.server is None:
            return True
        return server_of(self.server, self.bucket.topology) == self.replica

    @property
    def results(self) -> torch.Tensor:
        """The flat array of the means."""
        return self.array if self.means is None else self.means

    @property
    def views(self) -> list[torch.Tensor]:
        """The slices in the array, each in its shape."""
        parts = self.array.split([part.elements for part in self.bucket.slices])
        return [part.view(planned.shape) for part, planned in zip(parts, self.bucket.slices, strict=True)]

    def divide(self, span: Span) -> None:
        """Turn the complete sum of a span of the array into the mean."""
        torch.mul(self.array[slice(*span)], 1.0 / len(self.bucket.topology), out=self.results[slice(*span)])

    def gathering(self) -> PartExchange:
        """Parts of all replicas, which reach all ranks, or the server only."""
        topology = self.bucket.topology
        if self.server is None:
            handings = [handing for handings in gather_among(topology).rounds for handing in handings]
        else:
            server = server_of(self.server, topology)
            handings = [Handing(replica, replica, server) for replica in range(len(topology)) if replica != server]
        return self.exchanges.of_parts(handings)

    def of(self, array: torch.Tensor) -> Place:
        """The same place with another array, which travels instead of the gradients."""
        return replace(self, array=array, means=None)

    def part(self, span: Span) -> Place:
        """The same place with a span of the arrays."""
        means = None if self.means is None else self.means[slice(*span)]
        return replace(self, array=self.array[slice(*span)], means=means)

    def all_reduce(self) -> HalfwayExchange:
        """The mean of the array over all replicas, by the algorithm of the bucket."""
        synchronizer, topology = self.bucket.synchronizer, self.bucket.topology
        assert isinstance(synchronizer, AllReduce)
        elements, item_bytes = len(self.array), self.array.dtype.itemsize
        return self.exchange(all_reduce_programs(synchronizer.algorithm, topology, elements, item_bytes), self.divide)

    def answer(self) -> HalfwayExchange:
        """The mean of the complete sums in the server's array, and its way to all ranks."""
        assert self.server is not None
        programs = server_programs(self.server, self.bucket.topology, len(self.array), pushes=False)
        return self.exchange(programs, self.divide)

    def exchange(
        self,
        programs: Sequence[Program],
        finish: Finish,
        stops_halfway: bool = False,
        wire: WireForm = PLAIN,
        cast_results: CastResults | None = None,
    ) -> HalfwayExchange:
        """This rank's part in `programs`; see `ProgramExchange`."""
        return self.exchanges.of_program(
            programs[self.replica], self.array, self.results, finish, stops_halfway, wire, cast_results
        )
