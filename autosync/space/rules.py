"""The words a search space is declared in: which variables a rule decides, and what it offers them."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, final

from autosync.errors import SpaceError
from autosync.spec import ALGORITHMS, ClusterSpec, Compressor, SufficientFactors, Variable

LOSSLESS: tuple[Compressor | None, ...] = (None, SufficientFactors())
"""No compressor, which leaves gradients as they are, and the one that loses nothing."""

PLACEMENTS = ("all", "one_per_node", "first")
AXES = ("first", "every")


@final
@dataclass(frozen=True)
class Where:
    """The variables for which all that is stated holds; `Where()` is every variable.

    `over_bytes` and `under_bytes` are strict. `named` holds shell patterns (`*/bias`); one must match.
    """

    sparse: bool | None = None
    over_bytes: int | None = None
    under_bytes: int | None = None
    named: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.named, str):
            raise SpaceError(f"Where(named=...) takes a tuple of patterns; write ({self.named!r},).")

    def holds(self, variable: Variable) -> bool:
        return (
            self.sparse in (None, variable.sparse)
            and (self.over_bytes is None or variable.bytes > self.over_bytes)
            and (self.under_bytes is None or variable.bytes < self.under_bytes)
            and (not self.named or any(fnmatchcase(variable.name, pattern) for pattern in self.named))
        )


EVERYTHING = Where()


@final
@dataclass(frozen=True)
class PerServer:
    """A count of shards: as many as there are servers in the cluster, times `times`."""

    times: int = 1

    def __post_init__(self) -> None:
        if self.times < 1:
            raise SpaceError(f"PerServer(times) must be at least 1, not {self.times}.")


@final
@dataclass(frozen=True)
class PartBytes:
    """A count of shards: as many as it takes for none to be over `limit` bytes, give or take a row."""

    limit: int

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise SpaceError(f"PartBytes(limit) must be at least 1 byte, not {self.limit}.")


ShardCount: TypeAlias = int | PerServer | PartBytes


@final
@dataclass(frozen=True)
class Cut:
    """The numbers of shards that a variable may be cut into, and the axes to cut along.

    A count of 1 leaves it whole. Each count is clipped to the axis and to shards of at least `min_shard_bytes`, so a
    variable that is too small stays whole. Axes are `"first"`, or `"every"` (a sparse variable is only ever cut along
    axis 0). Counts come from bytes and servers, never from divisors: shards may be uneven, so a prime number of rows is
    cut like any other.
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
    """The devices that parameter servers may be on, and whether other nodes may keep a local copy.

    `placement` is `"all"` server devices, `"one_per_node"` (each node's first), `"first"` (the cluster's first), or a
    tuple of device names. A local copy is offered where it can make a difference: to dense variables, on clusters with
    several nodes of which one has several replicas.
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
        """Names of the devices on `cluster`, in its order. Raises `SpaceError` for a device it does not have."""
        there = tuple(str(device) for device in cluster.server_devices)
        if self.placement == "all":
            return there
        if self.placement == "one_per_node":
            return tuple(str(node.cpu_devices[0]) for node in cluster.nodes)
        if self.placement == "first":
            return there[:1]
        for name in self.placement:
            if name not in there:
                raise SpaceError(
                    f"The space puts parameters on {name!r}, which this cluster lacks. Servers: {', '.join(there)}."
                )
        return tuple(name for name in there if name in self.placement)


@final
@dataclass(frozen=True)
class Rule:
    """Offers the variables of `where` parameter servers, an all-reduce or either, whole or cut.

    With `mixed_shards`, shards of one variable may differ in kind (one on a server, another all-reduced); without,
    they are all on servers or all all-reduced. Servers, local copies and buckets are chosen per shard either way.

    `algorithms` are those of all-reduces, offered where they can make a difference (`autosync/layout/all_reduce`);
    `gpu_algorithms` are offered too if every replica runs on a GPU.
    `compressors` say how gradients may be sent, on servers and all-reduced alike; None is as they are. Those that
    cannot hold for a variable or an algorithm, or save it no bytes, are left out, and a variable that none of them fits
    is sent as it is.
    """

    where: Where = EVERYTHING
    servers: Servers | None = None
    all_reduce: bool = False
    cut: Cut = Cut()
    mixed_shards: bool = False
    algorithms: tuple[str, ...] = ("ring",)
    compressors: tuple[Compressor | None, ...] = (None,)
    gpu_algorithms: tuple[str, ...] = ()

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
                "Rule(compressors) needs one or more that fit any matrix, or None; sufficient factors alone do not."
            )
