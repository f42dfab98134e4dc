"""Tables of one model on one cluster with its replicas: what can be worked out before a strategy is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.cost.alike import Alike
from autosync.cost.capacity import PassCosts, Resources, core_flops, fair_cores, replicas_on_cores
from autosync.cost.closed_form.matrices import Matrices
from autosync.cost.closed_form.projection import Columns, Projected, Projection
from autosync.cost.everyone import MOST_LISTED, gather_pairs, work_of_gather
from autosync.cost.remembered import remembered
from autosync.layout.channels import GATHERED, Channel, Exchanges
from autosync.layout.shards import Slices
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec, ModelSpec

PHASES = 17
"""Points of the backward pass, from its start to its end, to which gradients' ready times are rounded."""

MOST_MATRICES = 64
"""The most matrices kept; strategies costed together use one of a few sets of channels."""

FloatArray = npt.NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False)
class CostTables:
    """What the channels met so far load onto links, nodes and servers; made when they are first asked for.

    `phases` says when each variable's gradient is ready, from 0 to `PHASES` - 1.
    `node_compute` float64 (nodes,) is each node's share of work: replicas a core, times `core_flops`; `gpu_flops` are a
    GPU replica's forward flops (0: none), or `gpu_seconds` what both its passes were measured to take, `paced_seconds`
    what both passes take on paced nodes (0: they are not).
    """

    cluster: ClusterSpec
    replicas: tuple[str, ...]
    columns: Columns
    slices: Slices
    phases: Mapping[str, int]
    node_cores: FloatArray
    node_compute: FloatArray
    gpu_flops: float
    gpu_seconds: float
    paced_seconds: float
    gradient_bytes: float
    _exchanges: Exchanges
    _projection: Projection
    _projected: dict[Channel, Projected] = field(default_factory=dict, repr=False)
    _matrices: dict[tuple[Channel, ...], Matrices] = field(default_factory=dict, repr=False)

    def projected(self, channel: Channel) -> Projected:
        """What the exchange of `channel` loads. Raises `KeyError` when the cluster has no such server."""
        if channel not in self._projected:
            self._projected[channel] = self._made(channel)
        return self._projected[channel]

    def matrices(self, channels: tuple[Channel, ...]) -> Matrices:
        """The matrices of one or more channels, in the order given."""
        if channels not in self._matrices:
            if len(self._matrices) >= MOST_MATRICES:
                self._matrices.clear()
            found = [self.projected(channel) for channel in channels]
            self._matrices[channels] = Matrices.of(found, self.alike, self.columns)
        return self._matrices[channels]

    @cached_property
    def alike(self) -> Alike:
        """Which nodes can change places."""
        return Alike(Resources(self.cluster), self.replicas)

    def _made(self, channel: Channel) -> Projected:
        what, server, local_copy = channel
        if server:
            if server not in self._servers:
                raise KeyError(server)
            first = self.alike.stands_for(server)
            nodes = [self.alike.resources.node_of[each] for each in (server, first)]
            if first != server:
                return replace(self.projected((what, first, local_copy)), node=nodes[0], first=nodes[1])
            return replace(self._projection.of(self._exchanges.of(channel)), node=nodes[0], first=nodes[1])
        if what in GATHERED and len(self.replicas) > MOST_LISTED:
            topology = self._exchanges.topology
            stages = gather_pairs(topology, self.alike)
            work = work_of_gather(topology, self._exchanges.slots, channel)
            return self._projection.of_gather(stages, GATHERED[what], work)
        return self._projection.of(self._exchanges.of(channel))

    @cached_property
    def _servers(self) -> frozenset[str]:
        return frozenset(map(str, self.cluster.server_devices))


def cost_tables(model: ModelSpec, cluster: ClusterSpec, replicas: tuple[str, ...]) -> CostTables:
    """The tables of `model` on `cluster`, kept for the models and clusters met last."""
    return _of_objects(_Same(model), _Same(cluster), replicas)


class _Same:
    """Stands for an object, and equals what stands for the very same: hashing a model by what it says takes long."""

    def __init__(self, it: Any) -> None:
        self.it = it

    def __hash__(self) -> int:
        return id(self.it)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.it is other.it


@remembered(64)
def _of_objects(model: _Same, cluster: _Same, replicas: tuple[str, ...]) -> CostTables:
    return _made(model.it, cluster.it, replicas)


@remembered(32)
def _made(model: ModelSpec, cluster: ClusterSpec, replicas: tuple[str, ...]) -> CostTables:
    projection = Projection(cluster)
    passes = PassCosts.of(model, cluster, replicas)
    given = passes.of_gpu
    cores = fair_cores(cluster)
    return CostTables(
        cluster=cluster,
        replicas=replicas,
        columns=projection.columns,
        slices=Slices(model),
        phases={each.name: round(passes.ready[each.name] * (PHASES - 1)) for each in model.variables},
        node_cores=cores,
        node_compute=core_flops(model, passes.paced) * replicas_on_cores(cluster, replicas) / cores,
        gpu_flops=model.flops if passes.on_gpus and given is None else 0.0,
        gpu_seconds=0.0 if given is None else given.forward_seconds + given.backward_seconds,
        paced_seconds=0.0 if passes.paced is None else passes.paced.seconds,
        gradient_bytes=model.gradient_bytes,
        _exchanges=Exchanges(Topology(cluster, replicas), model.slots),
        _projection=projection,
    )
