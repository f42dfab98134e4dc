"""All-reduce algorithms, a row each. `layout/all_reduce` has a file of each one's name, which lays it out."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class AlgorithmRow:
    """The properties of an algorithm.

    `placed`: made of moves, which ordinary ops carry out, each on the device that does its part; others are
    TensorFlow's collectives, among replicas of one kind and without scales. `chunked`: it sends a replica's share of a
    bucket, and a bucket with few elements has few shares. `seen_as`: the algorithm that learned simulators see instead,
    with as many bytes and messages or nearly so; the figures of links and the base simulator tell them apart. Without
    it, the algorithm has inputs of its own, and simulators must be fitted again.
    """

    name: str
    in_words: str
    placed: bool = True
    chunked: bool = False
    seen_as: str | None = None


ALGORITHM_ROWS: Mapping[str, AlgorithmRow] = MappingProxyType(
    {
        row.name: row
        for row in (
            AlgorithmRow("ring", "ring", chunked=True),  # reduce-scatter, then all-gather
            AlgorithmRow("tree", "binomial-tree"),  # binomial reduce, then broadcast
            # Recursive halving, then doubling, the largest halves between replicas far apart in order.
            AlgorithmRow("halving_doubling", "halving-and-doubling", chunked=True),
            # The same between those near each other: of a node, then of a rack.
            AlgorithmRow("rabenseifner", "Rabenseifner", chunked=True, seen_as="halving_doubling"),
            AlgorithmRow("hierarchical", "hierarchical"),  # inside each node, then across nodes
            # NCCL among GPUs, a ring among CPUs.
            AlgorithmRow("collective", "TensorFlow's collective", placed=False, chunked=True),
            # Inside each node, then across nodes, then across racks, all replicas with their shares.
            AlgorithmRow("blueconnect", "BlueConnect", chunked=True, seen_as="halving_doubling"),
            AlgorithmRow("direct", "direct-exchange", chunked=True, seen_as="ring"),  # each node to each other
            AlgorithmRow("fitted", "fitted", chunked=True, seen_as="ring"),  # along trees packed for the cluster
        )
    }
)
"""A new algorithm joins at the end: random draws follow this order."""

ALGORITHMS = tuple(ALGORITHM_ROWS)
PLACED_ALGORITHMS = tuple(row.name for row in ALGORITHM_ROWS.values() if row.placed)
GPU_ALGORITHMS = tuple(row.name for row in ALGORITHM_ROWS.values() if not row.placed)
"""The framework's own all-reduce, which is NCCL among GPUs."""
CHUNKED = tuple(row.name for row in ALGORITHM_ROWS.values() if row.chunked)
SEEN_AS = {row.name: row.seen_as for row in ALGORITHM_ROWS.values() if row.seen_as}
