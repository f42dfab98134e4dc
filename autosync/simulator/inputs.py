"""The inputs that networks read of strategies: pooled tensors, tensors of variables, and graphs, in batches.

Notation: n strategies, V variables of all of them together, p, d, ... inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum

import torch

from autosync.simulator.crew import ALONE, Crew

LARGEST_NORMALIZED = 3.0
LEAST_SCALE = 0.05


class Detail(IntEnum):
    """How much of a strategy a network reads; each also reads what those before it do."""

    POOLED = 0
    VARIABLES = 1
    GRAPH = 2


@dataclass(frozen=True, eq=False)
class Graph:
    """One strategy's servers, buckets and links (nodes, inputs), `edges` int64 (2, e) and their inputs (e, inputs).

    Nodes are numbered as in `autosync.simulator.encoding.graph`.
    """

    servers: torch.Tensor
    buckets: torch.Tensor
    links: torch.Tensor
    edge_inputs: torch.Tensor
    edges: torch.Tensor
    switches: int

    def changed(self, tensors: dict[str, torch.Tensor]) -> Graph:
        """The same graph with other inputs."""
        return replace(self, **tensors)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of n strategies: `pooled` (n, p); for networks that read them `variables`, (v, d) each, and `graphs`."""

    pooled: torch.Tensor
    variables: tuple[torch.Tensor, ...] = ()
    graphs: tuple[Graph, ...] = ()

    def __len__(self) -> int:
        return len(self.pooled)

    def take(self, places: Sequence[int]) -> Inputs:
        """The inputs at `places`, in that order."""
        return Inputs(
            self.pooled[list(places)],
            tuple(self.variables[place] for place in places) if self.variables else (),
            tuple(self.graphs[place] for place in places) if self.graphs else (),
        )

    def own(self, places: Sequence[int]) -> tuple[Inputs, torch.Tensor]:
        """The inputs at those of `places` that are in this process, which all are, and where in `places` they stand."""
        return self if places == range(len(self)) else self.take(places), torch.arange(len(places))

    def pieces(self) -> Iterator[tuple[Inputs, torch.Tensor]]:
        """All inputs, as many at once as there is room for, and their places."""
        yield self, torch.arange(len(self))

    def normalization(self) -> Normalization:
        return Normalization.of(self)

    def normalized(self, normalization: Normalization) -> Inputs:
        return normalization(self)

    def gathered(self) -> Inputs:
        """All inputs in memory."""
        return self

    @property
    def crew(self) -> Crew:
        """Whoever has inputs of the same strategies."""
        return ALONE

    def to(self, dtype: torch.dtype) -> Inputs:
        def cast(graph: Graph) -> Graph:
            return graph.changed({name: getattr(graph, name).to(dtype) for name in (*NODE_KINDS, "edge_inputs")})

        return Inputs(
            self.pooled.to(dtype), tuple(each.to(dtype) for each in self.variables), tuple(map(cast, self.graphs))
        )

    @property
    def lengths(self) -> torch.Tensor:
        """How many variables each strategy has, int64 (n,)."""
        return torch.tensor([len(each) for each in self.variables], dtype=torch.int64)


NODE_KINDS = ("servers", "buckets", "links")


@dataclass(frozen=True, eq=False)
class Normalization:
    """A row of means and a row of scales for each kind of inputs, float64 (2, inputs).

    Inputs minus the mean, over the scale, are kept within `LARGEST_NORMALIZED`.
    """

    pooled: torch.Tensor
    variables: torch.Tensor
    servers: torch.Tensor
    buckets: torch.Tensor
    links: torch.Tensor

    @classmethod
    def of(cls, inputs: Inputs) -> Normalization:
        """Zero mean and unit deviation on `inputs`; a column that hardly changes is not blown up to that."""
        kinds = {name: _rows([getattr(graph, name) for graph in inputs.graphs]) for name in NODE_KINDS}
        return cls(
            _figures(inputs.pooled), _figures(_rows(inputs.variables)), **{k: _figures(v) for k, v in kinds.items()}
        )

    @classmethod
    def from_tensors(cls, tensors: dict[str, torch.Tensor]) -> Normalization:
        """The normalization in `tensors`. Raises `KeyError` when one is missing."""
        return cls(**{each.name: tensors[each.name] for each in fields(cls)})

    def tensors(self) -> dict[str, torch.Tensor]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __call__(self, inputs: Inputs) -> Inputs:
        def normalized(graph: Graph) -> Graph:
            return graph.changed({k: _normalized(getattr(graph, k), getattr(self, k)) for k in NODE_KINDS})

        return Inputs(
            _normalized(inputs.pooled, self.pooled),
            tuple(_normalized(each, self.variables) for each in inputs.variables),
            tuple(map(normalized, inputs.graphs)),
        )


def _rows(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat(list(tensors)) if tensors else torch.zeros(0, 0, dtype=torch.float64)


def _figures(rows: torch.Tensor) -> torch.Tensor:
    if not len(rows):
        return torch.stack(
            [torch.zeros(rows.shape[1:], dtype=rows.dtype), torch.ones(rows.shape[1:], dtype=rows.dtype)]
        )
    return torch.stack([rows.mean(dim=0), rows.std(dim=0, correction=0).clamp(min=LEAST_SCALE)])


def _normalized(rows: torch.Tensor, figures: torch.Tensor) -> torch.Tensor:
    if rows.shape[-1] != figures.shape[-1]:
        return rows
    return ((rows - figures[0]) / figures[1]).clamp(-LARGEST_NORMALIZED, LARGEST_NORMALIZED)
