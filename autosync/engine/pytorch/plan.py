"""The buckets of a strategy, and the programs by which ranks exchange them; equal on all ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from autosync.layout.all_reduce import layout_of
from autosync.layout.fusion import Layout, as_ready, is_elementwise, pieces_of
from autosync.layout.gather import Gather, gather_among
from autosync.layout.moves import Move, Moves, Round, Span
from autosync.layout.shards import Shard, Slice
from autosync.layout.span_program import Program, programs_of, server_moves
from autosync.layout.topology import Topology
from autosync.spec import (
    AllReduce,
    Cast,
    ClusterSpec,
    Device,
    ModelSpec,
    ParameterServer,
    PowerSGD,
    Strategy,
    SufficientFactors,
    Synchronizer,
    TopK,
)


@dataclass(frozen=True)
class PlannedExchange:
    """A span of a bucket that one exchange covers, with the programs of all members."""

    span: Span
    programs: tuple[Program, ...]


@dataclass(frozen=True)
class PlannedBucket:
    """Slices of variables that lie end to end in one flat array, in the order in which gradients become ready."""

    slices: tuple[Slice, ...]
    synchronizer: Synchronizer
    topology: Topology
    exchanges: tuple[PlannedExchange, ...]
    """Exchanges of spans of the array, end to end; none if the compressor has exchanges of its own."""

    @property
    def is_collective(self) -> bool:
        """Whether PyTorch's own all-reduce takes the place of the exchanges, where ranks have one."""
        return is_collective(self.synchronizer)

    @property
    def is_factored(self) -> bool:
        """Whether gradients travel as sufficient factors."""
        return isinstance(self.synchronizer.compressor, SufficientFactors)

    @property
    def cast(self) -> Cast | None:
        """The type that gradients have on their way; None for a single replica, whose gradients stay."""
        compressor = self.synchronizer.compressor
        return compressor if isinstance(compressor, Cast) and len(self.topology) > 1 else None

    @property
    def elements(self) -> int:
        return sum(part.elements for part in self.slices)

    @property
    def dtype(self) -> str:
        return self.slices[0].variable.dtype


@dataclass(frozen=True)
class PlannedRows:
    """A shard of a table whose gradient is sparse."""

    slice: Slice
    gather: Gather | None
    """The messages by which all members get all rows; None where a server adds them up."""
    server: int = 0
    """The member that adds up, where there is no gather."""
    cast: Cast | None = None
    """The type that gradients have on their way."""


@dataclass(frozen=True)
class ExchangePlan:
    """All exchanges of a step."""

    buckets: tuple[PlannedBucket, ...]
    """Dense gradients, in the order in which the last gradient of each bucket becomes ready."""
    rows: tuple[PlannedRows, ...]
    """Sparse gradients."""


def plan(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> ExchangePlan:
    """The exchanges of `strategy`.

    Members of the programs are the strategy's replicas, in its order. An all-reduced bucket is one exchange; a server's
    bucket is one exchange per piece, so the server sends the first values while gradients still arrive.
    """
    layout = Layout.of(strategy, model)
    topology = Topology(cluster, strategy.replicas)
    rows = tuple(_plan_rows(shard, topology) for shard in layout.alone if shard.variable.sparse)
    dense = [[shard] for shard in layout.alone if not shard.variable.sparse]
    buckets = tuple(
        PlannedBucket(
            tuple(shard.slice for shard in shards),
            shards[0].synchronizer,
            topology,
            () if has_own_exchanges(shards) else tuple(_exchanges(shards, topology)),
        )
        for shards in as_ready([*layout.buckets, *layout.parcels, *dense])
    )
    return ExchangePlan(buckets, rows)


def is_collective(synchronizer: Synchronizer) -> bool:
    """Whether PyTorch's own all-reduce synchronizes gradients."""
    return isinstance(synchronizer, AllReduce) and synchronizer.is_collective


def has_own_exchanges(shards: Sequence[Shard]) -> bool:
    """Whether shards that travel together are encoded, by a compressor whose exchanges differ from those of sums."""
    compressor = shards[0].synchronizer.compressor
    if isinstance(compressor, PowerSGD):
        return any(compressor.matrix(shard.shape) for shard in shards)
    return isinstance(compressor, TopK | SufficientFactors)


def _exchanges(shards: Sequence[Shard], topology: Topology) -> Iterator[PlannedExchange]:
    synchronizer = shards[0].synchronizer
    elements = sum(shard.elements for shard in shards)
    if isinstance(synchronizer, AllReduce):
        programs = all_reduce_programs(synchronizer.algorithm, topology, elements, shards[0].slice.item_bytes)
        yield PlannedExchange((0, elements), programs)
        return
    sizes = pieces_of(shards) if is_elementwise(synchronizer) else (elements,)
    for begin, end in pairwise(accumulate(sizes, initial=0)):
        yield PlannedExchange((begin, end), server_programs(synchronizer, topology, end - begin))


def all_reduce_programs(algorithm: str, topology: Topology, elements: int, item_bytes: int) -> tuple[Program, ...]:
    """The programs of all members. A collective's are those of a ring, which takes its place between threads."""
    moves = Moves((), ())
    if len(topology) > 1:
        moves_of = layout_of(algorithm).moves or layout_of("ring").moves
        assert moves_of is not None
        moves = moves_of(topology, elements, item_bytes)
    return programs_of(moves, len(topology), elements)


def server_programs(
    server: ParameterServer, topology: Topology, elements: int, pushes: bool = True, answers: bool = True
) -> tuple[Program, ...]:
    """The programs of all members: sums go to the server if it `pushes`, and results come back if it `answers`.

    Without pushes, only the server has a sum, which is complete.
    """
    moves = _server_moves(server, topology, elements)
    if pushes:
        return programs_of(moves if answers else Moves(moves.adding, ()), len(topology), elements)
    return programs_of(Moves((), moves.copying), len(topology), elements, {server_of(server, topology)})


def broadcast_program(rank: int, size: int, elements: int) -> Program:
    """The program of `rank` for a broadcast of `elements` from rank 0 to all of `size` ranks."""
    copies = tuple(Move(0, target, (0, elements)) for target in range(1, size))
    moves = Moves((), (copies,)) if copies else Moves((), ())
    return programs_of(moves, size, elements, contributors={0})[rank]


def server_of(server: ParameterServer, topology: Topology) -> int:
    """The member that adds up."""
    return _members([server.device], topology)[0]


def _plan_rows(shard: Shard, topology: Topology) -> PlannedRows:
    compressor = shard.synchronizer.compressor
    cast = compressor if isinstance(compressor, Cast) else None
    if isinstance(shard.synchronizer, AllReduce):
        return PlannedRows(shard.slice, gather_among(topology), cast=cast)
    return PlannedRows(shard.slice, None, server_of(shard.synchronizer, topology), cast)


def _members(devices: Sequence[str], topology: Topology) -> list[int]:
    """The member of each device. A device without a replica belongs to the first replica of its node."""
    number = {device: place for place, device in enumerate(topology.replicas)}
    first_on: dict[str, int] = {}
    for place, node in enumerate(topology.nodes):
        first_on.setdefault(node, place)
    return [number.get(device, first_on.get(Device.parse(device).node, -1)) for device in devices]


def _server_moves(server: ParameterServer, topology: Topology, elements: int) -> Moves:
    """The moves of gradients to a server, and of their mean back."""
    exchange = server_moves(server.device, topology.replicas, topology.processes, elements, server.local_copy)
    members = _members(exchange.devices, topology)

    def between_replicas(moves: Round) -> Round:
        mapped = (Move(members[move.source], members[move.target], move.span) for move in moves)
        return tuple(move for move in mapped if move.source != move.target)

    adding, copying = (
        tuple(filter(None, map(between_replicas, rounds))) for rounds in (exchange.moves.adding, exchange.moves.copying)
    )
    return Moves(adding, copying)
