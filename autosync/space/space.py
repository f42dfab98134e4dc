"""A declared search space, and binding it to a model and a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from autosync.errors import SpaceError
from autosync.space.domain import Domain
from autosync.space.domains import Domains
from autosync.space.knowledge import KNOWLEDGE, check_known
from autosync.space.naming import compressor_text
from autosync.space.offers import offered_reductions, offered_servers
from autosync.space.rules import Cut, PartBytes, PerServer, Rule, ShardCount
from autosync.space.search_space import SearchSpace
from autosync.space.staleness import is_plain
from autosync.spec import MOST_SHARDS, ClusterSpec, ModelSpec, Partition, Variable

MOST_UNBOUNDED = 32
"""The most shards that a variable may be cut in where nothing bounds them: as fine as any declared space asks for."""

MOST_FINE, FEW_SHARDS = 8192, 32
"""A model is cut by servers into no more shards than about this, unless a variable has no more than the second: a
thousand servers have enough of them, and what is finer costs messages and takes long to search."""

UNBOUNDED = Cut(tuple(range(1, MOST_UNBOUNDED + 1)), axes="every", min_shard_bytes=1)


@final
@dataclass(frozen=True)
class Space:
    """Rules for the choices of each variable; the first rule whose `where` holds decides.

    A strategy of the space has at most `max_buckets` all-reduce buckets of each kind; a bucket's kind is its dtype,
    whether its gradients are sparse, its algorithm and its compressor, and a bucket never mixes kinds. `description` is
    one line for a person.

    `staleness` lists how many steps a fast replica may run ahead, for strategies that are on parameter servers
    altogether, uncompressed and without local copies. What changes the numbers that training follows (staleness, a
    lossy compressor) is only in a space that says so with `changes_statistics`.

    `knowledge` names the rules of `KNOWLEDGE` that its strategies are sampled and bred by.
    """

    name: str
    rules: tuple[Rule, ...]
    max_buckets: int = 1
    description: str = ""
    staleness: tuple[int, ...] = (0,)
    changes_statistics: bool = False
    knowledge: tuple[str, ...] = tuple(KNOWLEDGE)

    def __post_init__(self) -> None:
        if not self.rules:
            raise SpaceError(f"Space {self.name!r} needs at least one rule; none was given.")
        if self.max_buckets < 1:
            raise SpaceError(f"Space {self.name!r}: max_buckets must be at least 1, not {self.max_buckets}.")
        if 0 not in self.staleness or min(self.staleness) < 0:
            raise SpaceError(f"Space {self.name!r}: staleness holds 0 and numbers above it, not {self.staleness}.")
        check_known(self.knowledge, self.name)

    def without(self, *names: str) -> Space:
        """The space that does without some rules of `KNOWLEDGE`, and says so in its name. Raises `SpaceError`."""
        check_known(names, self.name)
        dropped = [name for name in self.knowledge if name in names]
        if not dropped:
            return self
        kept = tuple(name for name in self.knowledge if name not in dropped)
        return replace(self, name=f"{self.name} without {', '.join(dropped)}", knowledge=kept)

    def without_gpu_algorithms(self) -> Space:
        """The space with the same algorithms on GPUs as on CPUs."""
        return replace(self, rules=tuple(replace(rule, gpu_algorithms=()) for rule in self.rules))

    def bind(self, model: ModelSpec, cluster: ClusterSpec) -> SearchSpace:
        """The finite search space of `model` on `cluster`.

        Raises `SpaceError` when no rule decides a variable, a rule names a device that the cluster lacks, or something
        changes the statistics of training though the space does not say so.
        """
        self._check_statistics()
        finest = -(-sum(variable.bytes for variable in model.variables) // MOST_FINE)
        domains = tuple(self._domain(variable, cluster, finest) for variable in model.variables)
        self._check_staleness(domains)
        staleness = tuple(dict.fromkeys(self.staleness))
        known = Domains(domains, self.max_buckets, staleness, frozenset(self.knowledge))
        return SearchSpace(self.name, model, cluster, known)

    def _check_statistics(self) -> None:
        compressors = [each for rule in self.rules for each in rule.compressors if each and each.lossy]
        lossy = [f"compressor {compressor_text(each)}" for each in compressors]
        lossy += [f"staleness {steps}" for steps in self.staleness if steps]
        if lossy and not self.changes_statistics:
            raise SpaceError(
                f"Space {self.name!r} offers {lossy[0]}, which changes the numbers that training follows; "
                f"declare it with changes_statistics=True, or take it out."
            )

    def _check_staleness(self, domains: tuple[Domain, ...]) -> None:
        for domain in domains if max(self.staleness) else ():
            if not any(map(is_plain, domain.servers)):
                raise SpaceError(
                    f"Space {self.name!r} offers staleness, which needs every variable on parameter servers, "
                    f"uncompressed and without local copies, but a rule does not offer that to variable "
                    f"{domain.variable.name!r}; add it."
                )

    def _domain(self, variable: Variable, cluster: ClusterSpec, finest: int) -> Domain:
        for rule in self.rules:
            if rule.where.holds(variable):
                rule = self._less_what_is_not_known(rule)
                return Domain(
                    variable=variable,
                    cuts=_cuts(rule.cut, variable, len(cluster.server_devices), finest),
                    servers=offered_servers(rule, variable, cluster),
                    reductions=offered_reductions(rule, variable, cluster),
                    mixed_shards=rule.mixed_shards,
                )
        raise SpaceError(
            f"Space {self.name!r} has no rule for variable {variable.name!r} ({variable.bytes} bytes, "
            f"{'sparse' if variable.sparse else 'dense'}); end its rules with one for EVERYTHING."
        )

    def _less_what_is_not_known(self, rule: Rule) -> Rule:
        if "partition_bounds" not in self.knowledge:
            rule = replace(rule, cut=UNBOUNDED)
        if "server_choice" not in self.knowledge and rule.servers is not None:
            rule = replace(rule, servers=replace(rule.servers, placement="all"))
        return rule


def _cuts(cut: Cut, variable: Variable, servers: int, finest: int) -> tuple[Partition | None, ...]:
    """The ways to cut `variable`; whole is among them when a count asks for one shard, or nothing else is possible.

    Where there are many servers, a shard for each has at least `finest` bytes.
    """
    axes = range(len(variable.shape)) if cut.axes == "every" and not variable.sparse else range(1)
    counts = [_shards(count, variable, servers, finest) for count in cut.counts]
    sizes = {(min(count, _most_shards(cut, variable, axis)), axis) for axis in axes for count in counts}
    partitions = [Partition(axis, shards) for shards, axis in sorted(sizes) if shards > 1]
    return (*((None,) if 1 in counts or not partitions else ()), *partitions)


def _shards(count: ShardCount, variable: Variable, servers: int, finest: int) -> int:
    if isinstance(count, PerServer):
        return min(count.times * servers, max(variable.bytes // finest, FEW_SHARDS))
    if isinstance(count, PartBytes):
        return -(-variable.bytes // count.limit)
    return count


def _most_shards(cut: Cut, variable: Variable, axis: int) -> int:
    rows = variable.shape[axis] if variable.shape else 1
    return min(rows, max(1, variable.bytes // cut.min_shard_bytes), MOST_SHARDS)
