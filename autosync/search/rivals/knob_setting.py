"""One setting of the knobs: the strategy that it makes, and the setting that describes a strategy best."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from autosync.space import SearchSpace
from autosync.space.domain import SERVED, Domain
from autosync.spec import AllReduce, ParameterServer, Partition, Strategy, Synchronizer, VariableStrategy

ALL_SERVED, ALL_REDUCED, BIG_SERVED, BIG_REDUCED, SPARSE_SERVED = KINDS = (
    "all on servers",
    "all all-reduced",
    "big on servers",
    "big all-reduced",
    "sparse on servers",
)


@final
@dataclass(frozen=True)
class KnobSetting:
    """A value for each knob."""

    kind: str
    """Which variables go on servers; one of `KINDS`."""
    big_bytes: float
    """The gradient bytes from which a variable counts as big."""
    bucket_bytes: float
    """The bytes at which a bucket closes; buckets fill in the order in which gradients become ready."""
    cut_bytes: float
    """The gradient bytes from which a variable is cut into one shard per server."""
    servers: int
    """The number of devices used as servers, balanced by bytes."""
    algorithm: str
    """The all-reduce algorithm of dense variables."""
    local_copy: bool
    """Whether replicas keep local copies of variables on servers."""
    overlap: bool
    """Whether steps overlap with the next forward pass."""

    def strategy(self, space: SearchSpace) -> Strategy:
        """Return the setting's strategy for the space's model and cluster; the strategy may lie outside the space."""
        domains = space.domains.each
        devices = space.domains.devices[: self.servers]
        loads, buckets = dict.fromkeys(devices, 0.0), _Buckets(self.bucket_bytes)
        decided: dict[str, VariableStrategy] = {}
        for domain in sorted(domains, key=lambda domain: domain.variable.ready_order):
            name, cut = domain.variable.name, self._cut(domain)
            count = cut.shards if cut else 1
            shards: tuple[Synchronizer, ...]
            if self._is_served(domain):
                shards = tuple(self._server(domain.gradient_bytes / count, loads) for _ in range(count))
            else:
                algorithm = "ring" if domain.variable.sparse else self.algorithm
                shards = (AllReduce(buckets.group_for(domain), algorithm),) * count
            decided[name] = VariableStrategy(name, shards, cut)
        variables = tuple(decided[domain.variable.name] for domain in domains)
        return Strategy(space.replicas, variables, overlap_next_forward=self.overlap)

    def _is_served(self, domain: Domain) -> bool:
        if len(domain.kinds) == 1:
            return domain.kinds[0] == SERVED
        big = domain.gradient_bytes >= self.big_bytes
        return {
            ALL_SERVED: True,
            ALL_REDUCED: False,
            BIG_SERVED: big,
            BIG_REDUCED: not big,
            SPARSE_SERVED: domain.variable.sparse,
        }[self.kind]

    def _cut(self, domain: Domain) -> Partition | None:
        """Return the coarsest cut along the first axis into at least one shard per server; None for variables below
        `cut_bytes`.
        """
        if domain.gradient_bytes < self.cut_bytes:
            return None
        fine = [cut for cut in domain.cuts if cut and cut.axis == 0 and cut.shards >= self.servers]
        return fine[0] if fine else domain.cuts[-1]

    def _server(self, shard_bytes: float, loads: dict[str, float]) -> ParameterServer:
        device = min(loads, key=loads.__getitem__)
        loads[device] += shard_bytes
        return ParameterServer(device, self.local_copy)


@final
class _Buckets:
    """Buckets that close at `bucket_bytes`, separate for each kind of gradient."""

    def __init__(self, bucket_bytes: float) -> None:
        self._bucket_bytes = bucket_bytes
        self._groups = 0
        self._open: dict[tuple[bool, str], tuple[int, float]] = {}

    def group_for(self, domain: Domain) -> int:
        kind = domain.variable.sparse, domain.variable.dtype
        group, held = self._open.get(kind, (-1, math.inf))
        if held >= self._bucket_bytes:
            group, held = self._groups, 0.0
            self._groups += 1
        self._open[kind] = group, held + domain.gradient_bytes
        return group


def nearest_setting(space: SearchSpace, strategy: Strategy) -> KnobSetting:
    """Return the setting whose strategy is most like `strategy`, knob by knob."""
    served, reduced, cut_bytes = list[Domain](), list[Domain](), list[float]()
    for domain in space.domains.each:
        decision = strategy.by_name[domain.variable.name]
        (reduced if isinstance(decision.shards[0], AllReduce) else served).append(domain)
        if decision.partition:
            cut_bytes.append(domain.gradient_bytes)
    shards = [shard for _, _, shard in strategy.shards()]
    rings = [shard for shard in shards if isinstance(shard, AllReduce)]
    servers = [shard for shard in shards if isinstance(shard, ParameterServer)]
    groups = max(1, len({shard.group for shard in rings}))
    return KnobSetting(
        kind=_kind(served, reduced),
        big_bytes=_boundary(served, reduced),
        bucket_bytes=sum(domain.gradient_bytes for domain in reduced) / groups or math.inf,
        cut_bytes=min(cut_bytes, default=math.inf),
        servers=max(1, len({server.device for server in servers})),
        algorithm=Counter(shard.algorithm for shard in rings).most_common(1)[0][0] if rings else "ring",
        local_copy=2 * sum(server.local_copy for server in servers) > len(servers),
        overlap=strategy.overlap_next_forward,
    )


def _kind(served: Sequence[Domain], reduced: Sequence[Domain]) -> str:
    if not reduced:
        return ALL_SERVED
    if not served:
        return ALL_REDUCED
    if {domain.variable.sparse for domain in served} != {domain.variable.sparse for domain in reduced}:
        return SPARSE_SERVED
    return BIG_SERVED if _mean_bytes(served) > _mean_bytes(reduced) else BIG_REDUCED


def _boundary(served: Sequence[Domain], reduced: Sequence[Domain]) -> float:
    """Return the bytes halfway between the means of both kinds, on a logarithmic scale."""
    if not served or not reduced:
        return math.inf
    return math.sqrt(_mean_bytes(served) * _mean_bytes(reduced))


def _mean_bytes(domains: Sequence[Domain]) -> float:
    return statistics.fmean(domain.gradient_bytes for domain in domains)
