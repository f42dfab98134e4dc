"""The declarative language of search spaces: rules, the variables they match, and the options they offer."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, final

from autosync.errors import SpaceError
from autosync.spec import ALGORITHMS, ClusterSpec, Compressor, SufficientFactors, Variable

LOSSLESS: tuple[Compressor | None, ...] = (None, SufficientFactors())
"""No compressor, and the only compressor that is exact."""

PLACEMENTS = ("all", "one_per_node", "first")
AXES = ("first", "every")


@final
@dataclass(frozen=True)
class VariableFilter:
    """Matches the variables that satisfy all stated conditions; `VariableFilter()` matches every variable.

    `over_bytes` and `under_bytes` are strict. `named` holds shell patterns (`*/bias`); one must match.
    """

    sparse: bool | None = None
    over_bytes: int | None = None
    under_bytes: int | None = None
    named: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.named, str):
            raise SpaceError(f"VariableFilter(named=...) takes a tuple of patterns; write ({self.named!r},).")

    def holds(self, variable: Variable) -> bool:
        return (
            self.sparse in (None, variable.sparse)
            and (self.over_bytes is None or variable.bytes > self.over_bytes)
            and (self.under_bytes is None or variable.bytes < self.under_bytes)
            and (not self.named or any(fnmatchcase(variable.name, pattern) for pattern in self.named))
        )


EVERYTHING = VariableFilter()


@final
@dataclass(frozen=True)
class PerServer:
    """A count of shards: the number of servers in the cluster, times `times`."""

    times: int = 1

    def __post_init__(self) -> None:
        if self.times < 1:
            raise SpaceError(f"PerServer(times) must be at least 1, not {self.times}.")


@final
@dataclass(frozen=True)
class PartBytes:
    """A count of shards: the smallest with which shards have at most `limit` bytes, up to rounding by a row."""

    limit: int

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise SpaceError(f"PartBytes(limit) must be at least 1 byte, not {self.limit}.")


ShardCount: TypeAlias = int | PerServer | PartBytes


@final
@dataclass(frozen=True)
class Cut:
    """The numbers of shards that a variable may be cut into, and the axes to cut along.

    A count of 1 leaves the variable whole. Each count is clipped to the axis and to shards of at least
    `min_shard_bytes`, so a variable that is too small stays whole. Axes are `"first"`, or `"every"` (a sparse variable
    is cut along axis 0 only). Counts depend on bytes and servers, not on divisors: shards may be uneven, so a prime
    number of rows is cut like any other.
    """

    counts: tuple[ShardCount, ...] = (1,)
    axes: Literal["first", "every"] = "first"
    min_shard_bytes: int = 4096

    def __post_init__(self) -> None:
        if not self.counts or any(isinstance(count, int) and count < 1 for count in self.counts):
            raise SpaceError(f"Cut(counts) needs one or more counts of at least 1, not {self.counts}.")
        if self.axes not in AXES:
            raise SpaceError(f"Cut(axes) is one of {', '.join(AXES)}, not {self.axes!r}.")
        if self.min_shard_bytes < 1:
            raise SpaceError(f"Cut(min_shard_bytes) must be at least 1 byte, not {self.min_shard_bytes}.")


@final
@dataclass(frozen=True)
class Servers:
    """The devices that can be parameter servers, and whether other nodes may keep local copies.

    `placement` is `"all"` server devices, `"one_per_node"` (each node's first), `"first"` (the cluster's first), or a
    tuple of device names. Local copies are offered if they can make a difference: to dense variables, on clusters with
    several nodes and a node with several replicas.
    """

    placement: Literal["all", "one_per_node", "first"] | tuple[str, ...] = "all"
    local_copy: tuple[bool, ...] = (False,)

    def __post_init__(self) -> None:
        if isinstance(self.placement, str) and self.placement not in PLACEMENTS:
            raise SpaceError(
                f"Servers(placement) is one of {', '.join(PLACEMENTS)} or a tuple of device names, "
                f"not {self.placement!r}."
            )
        if not self.placement or not self.local_copy:
            raise SpaceError("Servers(...) needs at least one device and one choice of local_copy; leave none empty.")

    def devices(self, cluster: ClusterSpec) -> tuple[str, ...]:
        """Names of the devices, in the order of `cluster`. Raises `SpaceError` if `cluster` lacks a stated device."""
        available = tuple(str(device) for device in cluster.server_devices)
        if self.placement == "all":
            return available
        if self.placement == "one_per_node":
            return tuple(str(node.cpu_devices[0]) for node in cluster.nodes)
        if self.placement == "first":
            return available[:1]
        for name in self.placement:
            if name not in available:
                raise SpaceError(
                    f"The space puts parameters on {name!r}, which this cluster lacks. Servers: {', '.join(available)}."
                )
        return tuple(name for name in available if name in self.placement)


@final
@dataclass(frozen=True)
class Rule:
    """Offers parameter servers, all-reduce or both to the variables that `where` matches, whole or cut."""

    where: VariableFilter = EVERYTHING
    servers: Servers | None = None
    """Parameter servers on offer; None for none."""
    all_reduce: bool = False
    cut: Cut = Cut()
    mixed_shards: bool = False
    """Whether shards of one variable may differ in kind: some on servers, others all-reduced. Servers, local copies and
    buckets are chosen per shard in any case."""
    algorithms: tuple[str, ...] = ("ring",)
    """All-reduce algorithms, offered if they can make a difference on the cluster (`autosync/layout/all_reduce`)."""
    compressors: tuple[Compressor | None, ...] = (None,)
    """Encodings of gradients for servers and all-reduces; None sends gradients unchanged. A compressor is left out for
    variables and algorithms that cannot use it or save no bytes with it. A variable that no compressor fits is sent
    unchanged."""
    gpu_algorithms: tuple[str, ...] = ()
    """Additional algorithms if every replica runs on a GPU."""

    def __post_init__(self) -> None:
        if self.servers is None and not self.all_reduce:
            raise SpaceError(
                f"A rule must offer servers=Servers(...), all_reduce=True or both; {self.where} gets neither."
            )
        if not self.algorithms or not set(self.algorithms) <= set(ALGORITHMS):
            raise SpaceError(f"Rule(algorithms) is some of {', '.join(ALGORITHMS)}, not {self.algorithms}.")
        if not set(self.gpu_algorithms) <= set(ALGORITHMS):
            raise SpaceError(f"Rule(gpu_algorithms) is some of {', '.join(ALGORITHMS)}, not {self.gpu_algorithms}.")
        if not self.compressors or set(self.compressors) == {SufficientFactors()}:
            raise SpaceError(
                "Rule(compressors) needs None or a compressor that fits any matrix; sufficient factors alone do not."
            )
