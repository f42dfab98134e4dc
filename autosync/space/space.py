"""A declared search space, which binds to a model and a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from autosync.errors import SpaceError
from autosync.space.domain import Domain
from autosync.space.domains import Domains
from autosync.space.naming import compressor_text
from autosync.space.offers import reduction_options, server_options
from autosync.space.overlap import SMALL_BUCKET_BYTES
from autosync.space.priors import KNOWLEDGE, check_known
from autosync.space.rules import Cut, PartBytes, PerServer, Rule, ShardCount
from autosync.space.search_space import SearchSpace
from autosync.space.staleness import is_plain
from autosync.space.windows import read_order, urgencies
from autosync.spec import MOST_SHARDS, ClusterSpec, ModelSpec, Partition, Variable

MOST_UNBOUNDED = 32
"""The most shards of a variable without partition bounds: as fine as in any declared space."""

MOST_FINE, FEW_SHARDS = 8192, 32
"""By `PerServer`, a model is cut into about `MOST_FINE` shards at most, though any variable may have `FEW_SHARDS`. That
is enough for a thousand servers; a finer cut costs messages and makes searches slow."""

UNBOUNDED = Cut(tuple(range(1, MOST_UNBOUNDED + 1)), axes="every", min_shard_bytes=1)


@final
@dataclass(frozen=True)
class Space:
    """A declared search space."""

    name: str
    rules: tuple[Rule, ...]
    """Rules for the choices of each variable; the first rule whose `where` matches decides."""
    max_buckets: int = 1
    """The most all-reduce buckets of each kind. A bucket's kind is its dtype, whether its gradients are sparse, its
    algorithm and its compressor; a bucket never mixes kinds."""
    description: str = ""
    """One line for people."""
    staleness: tuple[int, ...] = (0,)
    """Numbers of steps that a fast replica may run ahead, for strategies with all shards on parameter servers,
    uncompressed and without local copies."""
    changes_statistics: bool = False
    """Must be True for a space with options that change the numbers of training: staleness or lossy compressors."""
    overlap: bool = True
    """Whether steps may overlap with the next forward pass, on engines that carry this out."""
    by_ddp: bool = False
    """True if a search may only time what PyTorch's DistributedDataParallel itself can carry out. The rules then state
    how its buckets are reduced; its settings decide which gradients share a bucket."""
    knowledge: tuple[str, ...] = tuple(KNOWLEDGE)
    """Names of the rules of `KNOWLEDGE` that guide sampling, mutation and crossover."""

    def __post_init__(self) -> None:
        if not self.rules:
            raise SpaceError(f"Space {self.name!r} needs at least one rule; none was given.")
        if self.max_buckets < 1:
            raise SpaceError(f"Space {self.name!r}: max_buckets must be at least 1, not {self.max_buckets}.")
        if 0 not in self.staleness or min(self.staleness) < 0:
            raise SpaceError(f"Space {self.name!r}: staleness holds 0 and numbers above it, not {self.staleness}.")
        check_known(self.knowledge, self.name)

    def without(self, *names: str) -> Space:
        """The space without the rules `names` of `KNOWLEDGE`, which its name states. Raises `SpaceError`."""
        check_known(names, self.name)
        dropped = [name for name in self.knowledge if name in names]
        if not dropped:
            return self
        kept = tuple(name for name in self.knowledge if name not in dropped)
        return replace(self, name=f"{self.name} without {', '.join(dropped)}", knowledge=kept)

    def without_gpu_algorithms(self) -> Space:
        """The space with the same algorithms on GPUs as on CPUs."""
        return replace(self, rules=tuple(replace(rule, gpu_algorithms=()) for rule in self.rules))

    def bind(
        self,
        model: ModelSpec,
        cluster: ClusterSpec,
        engine_overlaps: bool = False,
        engine_sends_rows_apart: bool = False,
    ) -> SearchSpace:
        """The finite search space of `model` on `cluster`.

        `engine_overlaps`: the engine carries out steps that overlap with the next forward pass.
        `engine_sends_rows_apart`: the engine can send the looked-up rows of tied tables apart.
        Raises `SpaceError` if no rule matches a variable, if a rule names a device that the cluster lacks, or if an
        option changes the statistics of training but `changes_statistics` is False.
        """
        self._check_statistics()
        finest = -(-sum(variable.bytes for variable in model.variables) // MOST_FINE)
        overlap = self.overlap and engine_overlaps and not self.by_ddp
        domains = tuple(self._domain(variable, cluster, finest, overlap) for variable in model.variables)
        self._check_staleness(domains)
        known = Domains(
            domains,
            self.max_buckets,
            staleness=tuple(dict.fromkeys(self.staleness)),
            knowledge=frozenset(self.knowledge),
            overlap=overlap,
            read_order=read_order(model) if overlap and "bucket_order" in self.knowledge else (),
            urgencies=urgencies(model) if overlap else (),
            tied=model.weight_tied_tables if engine_sends_rows_apart and not self.by_ddp else (),
        )
        return SearchSpace(self.name, model, cluster, known)

    def _check_statistics(self) -> None:
        compressors = [
            compressor for rule in self.rules for compressor in rule.compressors if compressor and compressor.lossy
        ]
        lossy = [f"compressor {compressor_text(compressor)}" for compressor in compressors]
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

    def _domain(self, variable: Variable, cluster: ClusterSpec, finest: int, overlap: bool) -> Domain:
        for rule in self.rules:
            if rule.where.holds(variable):
                rule = self._apply_missing_knowledge(rule)
                if overlap:
                    rule = _with_small_parts(rule)
                return Domain(
                    variable=variable,
                    cuts=_cuts(rule.cut, variable, len(cluster.server_devices), finest),
                    servers=server_options(rule, variable, cluster),
                    reductions=reduction_options(rule, variable, cluster),
                    mixed_shards=rule.mixed_shards,
                )
        raise SpaceError(
            f"Space {self.name!r} has no rule for variable {variable.name!r} ({variable.bytes} bytes, "
            f"{'sparse' if variable.sparse else 'dense'}); end its rules with one for EVERYTHING."
        )

    def _apply_missing_knowledge(self, rule: Rule) -> Rule:
        if "partition_bounds" not in self.knowledge:
            rule = replace(rule, cut=UNBOUNDED)
        if "server_choice" not in self.knowledge and rule.servers is not None:
            rule = replace(rule, servers=replace(rule.servers, placement="all"))
        return rule


def _with_small_parts(rule: Rule) -> Rule:
    """The rule with a cut into parts of small buckets, if it offers dense variables several cuts."""
    if rule.where.sparse or len(rule.cut.counts) < 2:
        return rule
    small = PartBytes(SMALL_BUCKET_BYTES[0])
    return replace(rule, cut=replace(rule.cut, counts=(*rule.cut.counts, small)))


def _cuts(cut: Cut, variable: Variable, servers: int, finest: int) -> tuple[Partition | None, ...]:
    """The ways to cut `variable`, including None (whole) if a count is 1 or no cut is possible.

    If there are many servers, `PerServer` cuts into shards of at least `finest` bytes.
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
        return min(-(-variable.bytes // count.limit), max(variable.bytes // finest, FEW_SHARDS))
    return count


def _most_shards(cut: Cut, variable: Variable, axis: int) -> int:
    rows = variable.shape[axis] if variable.shape else 1
    return min(rows, max(1, variable.bytes // cut.min_shard_bytes), MOST_SHARDS)
