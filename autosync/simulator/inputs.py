"""Inputs of networks in batches: pooled tensors, tensors of variables, and graphs of strategies.

Notation: n strategies, V variables of all strategies together, p, d, ... inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum

import torch

from autosync.simulator.fit_workers import SINGLE_WORKER, FitWorkers

LARGEST_NORMALIZED = 3.0
LEAST_SCALE = 0.05


class Detail(IntEnum):
    """How much of a strategy a network reads. Each level includes the levels before it."""

    POOLED = 0
    VARIABLES = 1
    GRAPH = 2


@dataclass(frozen=True, eq=False)
class Graph:
    """One strategy as a graph. Nodes are numbered as in `autosync.simulator.encoding.graph`."""

    servers: torch.Tensor
    """(servers, inputs)"""
    buckets: torch.Tensor
    """(buckets, inputs)"""
    links: torch.Tensor
    """(links, inputs)"""
    edge_inputs: torch.Tensor
    """(e, inputs)"""
    edges: torch.Tensor
    """Source and target nodes, int64 (2, e)."""
    switches: int
    """The number of switches."""

    def with_inputs(self, tensors: dict[str, torch.Tensor]) -> Graph:
        """Return the same graph with other inputs."""
        return replace(self, **tensors)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of n strategies: `pooled` (n, p); `variables`, (v, d) each, and `graphs` for networks that read them."""

    pooled: torch.Tensor
    variables: tuple[torch.Tensor, ...] = ()
    graphs: tuple[Graph, ...] = ()

    def __len__(self) -> int:
        return len(self.pooled)

    def take(self, places: Sequence[int]) -> Inputs:
        """Return the inputs at `places`, in that order."""
        return Inputs(
            self.pooled[list(places)],
            tuple(self.variables[place] for place in places) if self.variables else (),
            tuple(self.graphs[place] for place in places) if self.graphs else (),
        )

    def local(self, places: Sequence[int]) -> tuple[Inputs, torch.Tensor]:
        """Return the inputs of this process among `places`, and their positions in `places`. All inputs are in this
        process.
        """
        return self if places == range(len(self)) else self.take(places), torch.arange(len(places))

    def pieces(self) -> Iterator[tuple[Inputs, torch.Tensor]]:
        """Yield all inputs in pieces that fit into memory, with their places."""
        yield self, torch.arange(len(self))

    def normalization(self) -> Normalization:
        return Normalization.of(self)

    def normalize(self, normalization: Normalization) -> Inputs:
        return normalization(self)

    def in_memory(self) -> Inputs:
        """Return all inputs in memory."""
        return self

    @property
    def workers(self) -> FitWorkers:
        """The processes that hold inputs of the same strategies."""
        return SINGLE_WORKER

    def to(self, dtype: torch.dtype) -> Inputs:
        def cast(graph: Graph) -> Graph:
            return graph.with_inputs({name: getattr(graph, name).to(dtype) for name in (*NODE_KINDS, "edge_inputs")})

        return Inputs(
            self.pooled.to(dtype), tuple(rows.to(dtype) for rows in self.variables), tuple(map(cast, self.graphs))
        )

    @property
    def lengths(self) -> torch.Tensor:
        """The number of variables of each strategy, int64 (n,)."""
        return torch.tensor([len(rows) for rows in self.variables], dtype=torch.int64)


NODE_KINDS = ("servers", "buckets", "links")


@dataclass(frozen=True, eq=False)
class Normalization:
    """A row of means and a row of scales for each kind of inputs, float64 (2, inputs).

    Normalized inputs, (input - mean) / scale, are clamped to `LARGEST_NORMALIZED`.
    """

    pooled: torch.Tensor
    variables: torch.Tensor
    servers: torch.Tensor
    buckets: torch.Tensor
    links: torch.Tensor

    @classmethod
    def of(cls, inputs: Inputs) -> Normalization:
        """Return zero mean and unit deviation on `inputs`. A nearly constant column is scaled by `LEAST_SCALE`
        instead.
        """
        kinds = {name: _rows([getattr(graph, name) for graph in inputs.graphs]) for name in NODE_KINDS}
        return cls(
            _figures(inputs.pooled), _figures(_rows(inputs.variables)), **{k: _figures(v) for k, v in kinds.items()}
        )

    @classmethod
    def from_tensors(cls, tensors: dict[str, torch.Tensor]) -> Normalization:
        """Return the normalization in `tensors`. Raises `KeyError` if a tensor is missing."""
        return cls(**{field.name: tensors[field.name] for field in fields(cls)})

    def tensors(self) -> dict[str, torch.Tensor]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __call__(self, inputs: Inputs) -> Inputs:
        def normalize(graph: Graph) -> Graph:
            return graph.with_inputs({k: _normalize(getattr(graph, k), getattr(self, k)) for k in NODE_KINDS})

        return Inputs(
            _normalize(inputs.pooled, self.pooled),
            tuple(_normalize(rows, self.variables) for rows in inputs.variables),
            tuple(map(normalize, inputs.graphs)),
        )


def _rows(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat(list(tensors)) if tensors else torch.zeros(0, 0, dtype=torch.float64)


def _figures(rows: torch.Tensor) -> torch.Tensor:
    if not len(rows):
        return torch.stack(
            [torch.zeros(rows.shape[1:], dtype=rows.dtype), torch.ones(rows.shape[1:], dtype=rows.dtype)]
        )
    return torch.stack([rows.mean(dim=0), rows.std(dim=0, correction=0).clamp(min=LEAST_SCALE)])


def _normalize(rows: torch.Tensor, figures: torch.Tensor) -> torch.Tensor:
    if rows.shape[-1] != figures.shape[-1]:
        return rows
    return ((rows - figures[0]) / figures[1]).clamp(-LARGEST_NORMALIZED, LARGEST_NORMALIZED)
