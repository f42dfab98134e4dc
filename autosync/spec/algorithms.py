"""The table of all-reduce algorithms. `layout/all_reduce/NAME.py` lays out the moves of algorithm NAME."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class AlgorithmRow:
    """The properties of an algorithm."""

    name: str
    in_words: str
    """The name in sentences."""
    placed: bool = True
    """True if the algorithm consists of moves, which ordinary ops carry out on the devices that take part. False for
    the framework's own collectives, which need replicas of one kind and cannot send scales."""
    chunked: bool = False
    """Whether the algorithm sends shares of a bucket; a bucket with few elements has few shares."""
    seen_as: str | None = None
    """The algorithm that learned simulators see instead, with about as many bytes and messages; figures of links and
    the base simulator distinguish the two. None if the algorithm has its own inputs, so that simulators must be fitted
    again when it is added."""


ALGORITHM_ROWS: Mapping[str, AlgorithmRow] = MappingProxyType(
    {
        row.name: row
        for row in (
            AlgorithmRow("ring", "ring", chunked=True),  # reduce-scatter, then all-gather
            AlgorithmRow("tree", "binomial-tree"),  # binomial reduce, then broadcast
            # Recursive halving, then doubling, the largest halves between replicas far apart in order.
            AlgorithmRow("halving_doubling", "halving-and-doubling", chunked=True),
            # The same with the largest halves between near replicas: of a node, then of a rack.
            AlgorithmRow("rabenseifner", "Rabenseifner", chunked=True, seen_as="halving_doubling"),
            AlgorithmRow("hierarchical", "hierarchical"),  # inside each node, then across nodes
            # NCCL among GPUs, a ring among CPUs.
            AlgorithmRow("collective", "the framework's own collective", placed=False, chunked=True),
            # Inside each node, then across nodes, then across racks; every replica reduces its share.
            AlgorithmRow("blueconnect", "BlueConnect", chunked=True, seen_as="halving_doubling"),
            AlgorithmRow("direct", "direct-exchange", chunked=True, seen_as="ring"),  # between all pairs of nodes
            AlgorithmRow("fitted", "fitted", chunked=True, seen_as="ring"),  # along trees packed for the cluster
        )
    }
)
"""Add a new algorithm at the end, because random draws follow this order."""

ALGORITHMS = tuple(ALGORITHM_ROWS)
PLACED_ALGORITHMS = tuple(row.name for row in ALGORITHM_ROWS.values() if row.placed)
GPU_ALGORITHMS = tuple(row.name for row in ALGORITHM_ROWS.values() if not row.placed)
"""The framework's own all-reduce, which is NCCL among GPUs."""
CHUNKED = tuple(row.name for row in ALGORITHM_ROWS.values() if row.chunked)
SEEN_AS = {row.name: row.seen_as for row in ALGORITHM_ROWS.values() if row.seen_as}
