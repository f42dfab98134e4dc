"""Every message of a step, written down one by one as the synchronizers describe them: what `traffic` must add up to.

Nothing here is shared with `autosync.cost`. What an all-reduce sends are the algorithm's moves of a bucket of that very
size, and what is gathered goes as it is laid out: the engine carries both out. A message is (sender, receiver, bytes);
those between a device and itself, or within one process, are left out where links are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from autosync.layout.all_reduce import laid_out
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
    """Bytes over each link that is used, by `source>target`."""
    found: Counter[str] = Counter()
    for sender, receiver, size in _messages(model, Topology(cluster, strategy.replicas), strategy):
        first, last = Device.parse(sender), Device.parse(receiver)
        if _together(first, last):
            continue
        for link in cluster.route(first.node, last.node):
            found[f"{link.source}>{link.target}"] += size
    return {name: size for name, size in found.items() if size}


def _together(first: Device, last: Device) -> bool:
    """The same device, or a GPU and the CPU of its process."""
    return first == last or (first.node == last.node and first.kind != last.kind)


def _messages(model: ModelSpec, topology: Topology, strategy: Strategy) -> Iterator[Message]:
    replicas = strategy.replicas
    buckets: dict[int, list[tuple[Variable, tuple[int, ...]]]] = {}
    synchronizers: dict[int, AllReduce] = {}
    pairs = _gather_pairs(topology)
    for each in strategy.variables:
        variable = model.by_name[each.variable]
        sizes = shard_sizes(variable.shape[each.partition.axis], each.partition.shards) if each.partition else (0,)
        for shard, size in zip(each.shards, sizes, strict=True):
            shape = list(variable.shape)
            if each.partition:
                shape[each.partition.axis] = size
            if variable.sparse:
                share = size / variable.shape[0] if each.partition else 1.0
                yield from _row_messages(shard, variable, share, replicas, pairs)
            elif isinstance(shard, ParameterServer):
                yield from _server_messages(shard, variable, tuple(shape), replicas)
            else:
                buckets.setdefault(shard.group, []).append((variable, tuple(shape)))
                synchronizers[shard.group] = shard
    for group, members in buckets.items():
        yield from _bucket_messages(synchronizers[group], members, topology)


def _encoded(elements: float, compressor: Compressor | None, item: int) -> float:
    """Bytes of one message of so many gradient elements, with the scale that goes beside it in fp16."""
    if isinstance(compressor, Cast):
        return elements * 2 + (4 if compressor.dtype == "fp16" and elements else 0)
    return elements * item


def _gather_pairs(topology: Topology) -> list[tuple[str, str]]:
    """The ends of every message of a gather, each of one replica's part."""
    hands = (each for stage in gather_among(topology).rounds for each in stage)
    return [(topology.replicas[each.source], topology.replicas[each.target]) for each in hands]


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
    for replica in replicas:
        yield replica, shard.device, rows * 4
        yield shard.device, replica, rows * width * item
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
    """The moves of so many elements; a collective's are a ring's, and a ring's pieces add up to its chunks."""
    moves_of = laid_out(algorithm).moves or laid_out("ring").moves
    assert moves_of is not None
    moves = moves_of(topology, elements, 0)
    for source, target, (begin, end) in (move for each in (*moves.adding, *moves.copying) for move in each):
        yield topology.replicas[source], topology.replicas[target], end - begin


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result
