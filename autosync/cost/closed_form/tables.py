"""Tables of one model on one cluster with its replicas: all data that does not depend on the strategy."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

from autosync.cost.capacity import PassCosts, ResourceColumns, core_flops, fair_cores, replicas_on_cores
from autosync.cost.closed_form.matrices import Matrices
from autosync.cost.closed_form.projection import Columns, ExchangeLoads, Projection
from autosync.cost.gather_counts import MOST_LISTED, gather_pairs, work_of_gather
from autosync.cost.node_classes import NodeClasses
from autosync.cost.spec_cache import remember
from autosync.layout.channels import GATHERED, Channel, Exchanges
from autosync.layout.shards import Slices
from autosync.layout.topology import Topology
from autosync.numeric import FloatArray
from autosync.spec import ClusterSpec, ModelSpec

PHASES = 17
"""Points of the backward pass, from its start to its end, to which gradients' ready times are rounded."""

MOST_MATRICES = 64
"""The maximum number of cached matrices; the strategies of a batch use one of a few sets of channels."""


@final
@dataclass(frozen=True, eq=False)
class CostTables:
    """The costs of a model's passes, and the loads of channels on links, nodes and servers, computed on first use."""

    cluster: ClusterSpec
    replicas: tuple[str, ...]
    columns: Columns
    slices: Slices

    phases: Mapping[str, int]
    """The phase at which each variable's gradient is ready, from 0 to `PHASES` - 1."""

    node_cores: FloatArray
    """The fair cores of each node, (nodes,)."""

    node_compute: FloatArray
    """The computing of each node, (nodes,): replicas per core times `core_flops`."""

    gpu_flops: float
    """Forward flops of a GPU replica; 0 without GPUs or with a measured profile."""

    gpu_seconds: float
    """Measured seconds of both passes on a GPU; 0 without a measured profile."""

    paced_seconds: float
    """Seconds of both passes on paced nodes; 0 if nodes are not paced."""

    gradient_bytes: float
    _exchanges: Exchanges
    _projection: Projection
    _exchange_loads: dict[Channel, ExchangeLoads] = field(default_factory=dict, repr=False)
    _matrices: dict[tuple[Channel, ...], Matrices] = field(default_factory=dict, repr=False)

    def exchange_loads(self, channel: Channel) -> ExchangeLoads:
        """The loads of the exchange of `channel`. Raises `KeyError` if the cluster lacks the server."""
        if channel not in self._exchange_loads:
            self._exchange_loads[channel] = self._project(channel)
        return self._exchange_loads[channel]

    def matrices(self, channels: tuple[Channel, ...]) -> Matrices:
        """The matrices of one or more channels, in the given order."""
        if channels not in self._matrices:
            if len(self._matrices) >= MOST_MATRICES:
                self._matrices.clear()
            loads = [self.exchange_loads(channel) for channel in channels]
            self._matrices[channels] = Matrices.of(loads, self.alike, self.columns)
        return self._matrices[channels]

    @cached_property
    def alike(self) -> NodeClasses:
        """The classes of interchangeable nodes."""
        return NodeClasses(ResourceColumns(self.cluster), self.replicas)

    def _project(self, channel: Channel) -> ExchangeLoads:
        kind, server, local_copy = channel
        if server:
            if server not in self._servers:
                raise KeyError(server)
            first = self.alike.stands_for(server)
            nodes = [self.alike.resources.node_of[device] for device in (server, first)]
            if first != server:
                return replace(self.exchange_loads((kind, first, local_copy)), node=nodes[0], first=nodes[1])
            return replace(self._projection.of(self._exchanges.of(channel)), node=nodes[0], first=nodes[1])
        if kind in GATHERED and len(self.replicas) > MOST_LISTED:
            topology = self._exchanges.topology
            stages = gather_pairs(topology, self.alike)
            work = work_of_gather(topology, self._exchanges.slots, channel)
            return self._projection.of_gather(stages, GATHERED[kind], work)
        return self._projection.of(self._exchanges.of(channel))

    @cached_property
    def _servers(self) -> frozenset[str]:
        return frozenset(map(str, self.cluster.server_devices))


def cost_tables(model: ModelSpec, cluster: ClusterSpec, replicas: tuple[str, ...]) -> CostTables:
    """The tables of `model` on `cluster`, cached for recent models and clusters."""
    return _of_objects(_Same(model), _Same(cluster), replicas)


class _Same:
    """A cache key that compares an object by identity, because hashing a model by its contents is slow."""

    def __init__(self, content: Any) -> None:
        self.content = content

    def __hash__(self) -> int:
        return id(self.content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.content is other.content


@remember(64)
def _of_objects(model: _Same, cluster: _Same, replicas: tuple[str, ...]) -> CostTables:
    return _make(model.content, cluster.content, replicas)


@remember(32)
def _make(model: ModelSpec, cluster: ClusterSpec, replicas: tuple[str, ...]) -> CostTables:
    projection = Projection(cluster)
    passes = PassCosts.of(model, cluster, replicas)
    measured = passes.of_gpu
    cores = fair_cores(cluster)
    return CostTables(
        cluster=cluster,
        replicas=replicas,
        columns=projection.columns,
        slices=Slices(model, len(replicas)),
        phases={variable.name: round(passes.ready[variable.name] * (PHASES - 1)) for variable in model.variables},
        node_cores=cores,
        node_compute=core_flops(model, passes.paced) * replicas_on_cores(cluster, replicas) / cores,
        gpu_flops=model.flops if passes.on_gpus and measured is None else 0.0,
        gpu_seconds=0.0 if measured is None else measured.forward_seconds + measured.backward_seconds,
        paced_seconds=0.0 if passes.paced is None else passes.paced.seconds,
        gradient_bytes=model.gradient_bytes,
        _exchanges=Exchanges(Topology(cluster, replicas), model.slots),
        _projection=projection,
    )
