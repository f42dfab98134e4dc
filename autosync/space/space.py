"""A declared search space, and binding it to a model and a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from autosync.errors import SpaceError
from autosync.space.domain import Domain, Domains
from autosync.space.rules import Cut, PartBytes, PerServer, Rule, Servers, ShardCount
from autosync.space.search_space import SearchSpace
from autosync.spec import ClusterSpec, ModelSpec, ParameterServer, Partition, Variable

__all__ = ["Space"]


@final
@dataclass(frozen=True)
class Space:
    """Rules that say what each variable may be given; the first rule whose `where` holds decides.

    A strategy of the space has at most `max_buckets` all-reduce buckets of each kind; a bucket's kind is its dtype and
    whether its gradients are sparse, and a bucket never mixes kinds. `description` is one line for a person.
    """

    name: str
    rules: tuple[Rule, ...]
    max_buckets: int = 1
    description: str = ""

    def __post_init__(self) -> None:
        if not self.rules:
            raise SpaceError(f"Space {self.name!r} needs at least one rule; none was given.")
        if self.max_buckets < 1:
            raise SpaceError(f"Space {self.name!r}: max_buckets must be at least 1, not {self.max_buckets}.")

    def bind(self, model: ModelSpec, cluster: ClusterSpec) -> SearchSpace:
        """The finite search space of `model` on `cluster`.

        Raises `SpaceError` when no rule decides a variable, or a rule names a device that the cluster lacks.
        """
        domains = tuple(self._domain(variable, cluster) for variable in model.variables)
        return SearchSpace(self.name, model, cluster, Domains(domains, self.max_buckets))

    def _domain(self, variable: Variable, cluster: ClusterSpec) -> Domain:
        for rule in self.rules:
            if rule.where.holds(variable):
                return Domain(
                    variable=variable,
                    cuts=_cuts(rule.cut, variable, len(cluster.server_devices)),
                    servers=_servers(rule.servers, variable, cluster),
                    reduced=rule.all_reduce,
                    mixed_shards=rule.mixed_shards,
                )
        raise SpaceError(
            f"Space {self.name!r} has no rule for variable {variable.name!r} ({variable.bytes} bytes, "
            f"{'sparse' if variable.sparse else 'dense'}); end its rules with one for EVERYTHING."
        )


def _servers(servers: Servers | None, variable: Variable, cluster: ClusterSpec) -> tuple[ParameterServer, ...]:
    if servers is None:
        return ()
    useful = not variable.sparse and _local_copies_matter(cluster)
    copies = tuple(dict.fromkeys(servers.local_copy)) if useful else (False,)
    return tuple(ParameterServer(device, copy) for device in servers.devices(cluster) for copy in copies)


def _local_copies_matter(cluster: ClusterSpec) -> bool:
    """Whether some node has several replicas that could share a copy of a value from another node."""
    replicas = [device.node for device in cluster.replica_devices]
    return len(cluster.nodes) > 1 and len(set(replicas)) < len(replicas)


def _cuts(cut: Cut, variable: Variable, servers: int) -> tuple[Partition | None, ...]:
    """The ways to cut `variable`; whole is among them when a count asks for one shard, or nothing else is possible."""
    axes = range(len(variable.shape)) if cut.axes == "every" and not variable.sparse else range(1)
    counts = [_shards(count, variable, servers) for count in cut.counts]
    sizes = {(min(count, _most_shards(cut, variable, axis)), axis) for axis in axes for count in counts}
    partitions = [Partition(axis, shards) for shards, axis in sorted(sizes) if shards > 1]
    return (*((None,) if 1 in counts or not partitions else ()), *partitions)


def _shards(count: ShardCount, variable: Variable, servers: int) -> int:
    if isinstance(count, PerServer):
        return count.times * servers
    if isinstance(count, PartBytes):
        return -(-variable.bytes // count.limit)
    return count


def _most_shards(cut: Cut, variable: Variable, axis: int) -> int:
    rows = variable.shape[axis] if variable.shape else 1
    return min(rows, max(1, variable.bytes // cut.min_shard_bytes))
