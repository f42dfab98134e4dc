"""Lists every message of a step one by one, as the synchronizers describe them; `traffic` must equal their sum.

This module shares no code with `autosync.cost`. An all-reduce sends the algorithm's moves of a bucket of the actual
size, and a gather sends the handings of its layout; the engine executes both. A message is (sender, receiver, bytes).
Messages from a device to itself, or within one process, are left out of the counts of links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from autosync.layout.all_reduce import layout_of
from autosync.layout.gather import gather_among
from autosync.layout.topology import Topology
from autosync.spec import (
    DTYPE_BYTES,
    AllReduce,
    Cast,
    ClusterSpec,
    Compressor,
    Device,
    ModelSpec,
    ParameterServer,
    PowerSGD,
    Strategy,
    SufficientFactors,
    TopK,
    Variable,
    shard_sizes,
)

__all__ = ["link_bytes_of_messages"]

Message = tuple[str, str, float]


def link_bytes_of_messages(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> dict[str, float]:
    """Bytes over each used link, by `source>target`."""
    by_link: Counter[str] = Counter()
    for sender, receiver, size in _messages(model, Topology(cluster, strategy.replicas), strategy):
        first, last = Device.parse(sender), Device.parse(receiver)
        if _together(first, last):
            continue
        for link in cluster.route(first.node, last.node):
            by_link[f"{link.source}>{link.target}"] += size
    return {name: size for name, size in by_link.items() if size}


def _together(first: Device, last: Device) -> bool:
    """Whether both are the same device, or a GPU and the CPU of its process."""
    return first == last or (first.node == last.node and first.kind != last.kind)


def _messages(model: ModelSpec, topology: Topology, strategy: Strategy) -> Iterator[Message]:
    replicas = strategy.replicas
    buckets: dict[int, list[tuple[Variable, tuple[int, ...]]]] = {}
    synchronizers: dict[int, AllReduce] = {}
    pairs = _gather_pairs(topology)
    for decision in strategy.variables:
        variable, cut = model.by_name[decision.variable], decision.partition
        sizes = shard_sizes(variable.shape[cut.axis], cut.shards) if cut else (0,)
        for shard, size in zip(decision.shards, sizes, strict=True):
            shape = list(variable.shape)
            if cut:
                shape[cut.axis] = size
            if variable.sparse:
                share = size / variable.shape[0] if cut else 1.0
                yield from _row_messages(shard, variable, share, replicas, pairs)
            elif isinstance(shard, ParameterServer):
                yield from _server_messages(shard, variable, tuple(shape), replicas)
            else:
                buckets.setdefault(shard.group, []).append((variable, tuple(shape)))
                synchronizers[shard.group] = shard
    for group, members in buckets.items():
        yield from _bucket_messages(synchronizers[group], members, topology)


def _encoded(elements: float, compressor: Compressor | None, item: int) -> float:
    """Bytes of one message of `elements` gradient elements, including the separate scale in fp16."""
    if isinstance(compressor, Cast):
        return elements * 2 + (4 if compressor.dtype == "fp16" and elements else 0)
    return elements * item


def _gather_pairs(topology: Topology) -> list[tuple[str, str]]:
    """The ends of every message of a gather; a message carries one replica's part."""
    hands = (handing for stage in gather_among(topology).rounds for handing in stage)
    return [(topology.replicas[handing.source], topology.replicas[handing.target]) for handing in hands]


def _row_messages(
    shard, variable: Variable, share: float, replicas: Sequence[str], pairs: Sequence[tuple[str, str]]
) -> Iterator[Message]:
    assert variable.rows_per_step is not None
    rows, item = share * variable.rows_per_step, DTYPE_BYTES[variable.dtype]
    width = variable.row_elements
    pushed = _encoded(rows * width, shard.compressor, item)
    if isinstance(shard, AllReduce):
        for sender, receiver in pairs:
            yield sender, receiver, rows * 4 + pushed
        return
    answered = rows * width * item
    if variable.copied:  # the rows of all replicas come back with their numbers
        answered = share * min(variable.shape[0], variable.rows_of(len(replicas))) * (width * item + 4)
    for replica in replicas:
        yield replica, shard.device, rows * 4
        yield shard.device, replica, answered
        yield replica, shard.device, pushed


def _server_messages(
    shard: ParameterServer, variable: Variable, shape: tuple[int, ...], replicas: Sequence[str]
) -> Iterator[Message]:
    item, home, compressor = DTYPE_BYTES[variable.dtype], Device.parse(shard.device).node, shard.compressor
    elements = _product(shape)
    nodes: dict[str, list[str]] = {}
    for replica in replicas:
        nodes.setdefault(Device.parse(replica).node, []).append(replica)
    for node, members in nodes.items():
        if shard.local_copy and node != home:
            yield shard.device, f"{node}/cpu:0", elements * item
            for replica in members:
                yield f"{node}/cpu:0", replica, elements * item
        else:
            for replica in members:
                yield shard.device, replica, elements * item
    if isinstance(compressor, TopK | SufficientFactors):
        for replica in replicas:
            yield replica, shard.device, _own_bytes(compressor, variable, elements, item)
        return
    matrix = compressor.matrix(shape) if isinstance(compressor, PowerSGD) else None
    parts = [elements] if matrix is None else [side * compressor.rank for side in matrix]
    for part in parts:
        for node, members in nodes.items():
            target = shard.device
            if node != home and len(members) > 1:
                target = f"{node}/cpu:0"
                yield target, shard.device, _encoded(part, compressor, item)
            for replica in members:
                yield replica, target, _encoded(part, compressor, item)
    if matrix is not None:
        for replica in replicas:
            yield shard.device, replica, parts[0] * item


def _own_bytes(compressor: TopK | SufficientFactors, variable: Variable, elements: int, item: int) -> float:
    if isinstance(compressor, TopK):
        return compressor.kept(elements) * (item + 4)
    assert variable.factor_rows is not None
    return variable.factor_rows * sum(variable.shape) * item


def _bucket_messages(
    shard: AllReduce, members: Sequence[tuple[Variable, tuple[int, ...]]], topology: Topology
) -> Iterator[Message]:
    compressor, item = shard.compressor, DTYPE_BYTES[members[0][0].dtype]
    elements = sum(_product(shape) for _, shape in members)
    flat = [elements]
    if shard.gathers:
        parts = [(variable, _product(shape)) for variable, shape in members]
        if isinstance(compressor, TopK):
            parts = [(members[0][0], elements)]
        for variable, size in parts:
            for sender, receiver in _gather_pairs(topology):
                yield sender, receiver, _own_bytes(compressor, variable, size, item)
        return
    if isinstance(compressor, TopK):
        flat = [compressor.kept(elements)]
        for sender, receiver in _gather_pairs(topology):
            yield sender, receiver, flat[0] * 4 / len(topology.replicas) + (4 if compressor.indices == "var" else 0)
    if isinstance(compressor, PowerSGD):
        flat = [0, 0]
        for _, shape in members:
            matrix = compressor.matrix(shape)
            flat[0] += compressor.rank * matrix[0] if matrix else _product(shape)
            flat[1] += compressor.rank * matrix[1] if matrix else 0
    for size in filter(None, flat):
        for sender, receiver, sent in _by_algorithm(shard.algorithm, topology, size):
            yield sender, receiver, _encoded(sent, compressor, item)


def _by_algorithm(algorithm: str, topology: Topology, elements: int) -> Iterator[Message]:
    """The moves of `elements` elements. A collective has the moves of a ring, whose pieces add up to its chunks."""
    moves_of = layout_of(algorithm).moves or layout_of("ring").moves
    assert moves_of is not None
    moves = moves_of(topology, elements, 0)
    for source, target, (begin, end) in (move for stage in (*moves.adding, *moves.copying) for move in stage):
        yield topology.replicas[source], topology.replicas[target], end - begin


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result
