"""The search space: a declared space bound to a model and a cluster."""

import math
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

from autosync.errors import SpaceError
from autosync.layout.all_reduce import layout_of
from autosync.layout.gather import gather_among
from autosync.layout.topology import Topology
from autosync.space.buckets import within_limits
from autosync.space.crossover import cross
from autosync.space.domain import BucketKind, Draft
from autosync.space.domains import Domains
from autosync.space.enumeration import all_drafts
from autosync.space.mutation import mutate_draft
from autosync.space.naming import compressor_text
from autosync.space.overlap import can_overlap, draw_overlap, mutate_overlap, small_bucket_drafts
from autosync.space.projection import project
from autosync.space.relief_moves import relieve, weigh_by_urgency
from autosync.space.rows_apart import (
    all_rows_apart,
    cross_rows_apart,
    draw_rows_apart,
    in_own_buckets,
    mutate_rows_apart,
    with_rows_apart,
)
from autosync.space.sampling import sample_draft
from autosync.space.size import count_strategies, log_choices
from autosync.space.staleness import can_be_stale, settle_staleness
from autosync.spec import (
    ALGORITHMS,
    PLAIN,
    AllReduce,
    ClusterSpec,
    ModelSpec,
    Strategy,
    SufficientFactors,
    TopK,
    canonical_strategy,
)

SMALL = 4096
"""The most strategies, before symmetry, of a space that is enumerated."""

TRIES = 8
"""Number of mutations without a change after which a strategy counts as having no neighbour."""


ROWS_RELIEF = 0.2
"""The chance that a bottleneck with a tied table is relieved by sending the table's looked-up rows apart."""

OVERLAP_RELIEF = 0.2
"""The chance that a bottleneck is relieved by an overlap with the next forward pass, where one is possible."""


@final
@dataclass(frozen=True)
class SearchSpace:
    """The strategies that `Space.bind` offers for a model on a cluster, with replicas on all replica devices.

    Every returned strategy is valid, inside the space and canonical: one strategy represents all that differ only by
    devices that are alike. Devices also have to be alike for the rules. The only source of randomness is `rng`: equal
    arguments give equal strategies in any process.
    """

    name: str
    model: ModelSpec
    cluster: ClusterSpec
    domains: Domains

    @cached_property
    def replicas(self) -> tuple[str, ...]:
        return tuple(str(device) for device in self.cluster.replica_devices)

    @cached_property
    def log10_size(self) -> float:
        """Logarithm of the exact number of strategies; buckets are unnamed, devices that are alike count separately."""
        return math.log10(self._count)

    @property
    def decided_variables(self) -> int:
        """Number of variables with more than one possible decision: the dimension of the space by variables."""
        return sum(choices > 0 for choices in log_choices(self.domains))

    @cached_property
    def effective_dimension(self) -> float:
        """The number of variables with equally many decisions that would give an equally large space: the participation
        ratio

            (sum_i h_i)^2 / sum_i h_i^2,   h_i = log of the number of decisions on variable i alone.

        It shows how far the space exceeds the few dimensions that, for example, Gaussian processes on knobs can model.
        """
        choices = log_choices(self.domains)
        squares = sum(count**2 for count in choices)
        return sum(choices) ** 2 / squares if squares else 0.0

    @cached_property
    def size(self) -> int | None:
        """Number of different strategies that `enumerate` gives, or None if the space is not small."""
        return len(self._all) if self.is_small() else None

    def is_small(self) -> bool:
        """Whether the space can be enumerated."""
        return self._count <= SMALL

    def enumerate(self) -> Iterator[Strategy]:
        """Every strategy once. Raises `SpaceError` if the space is not small."""
        if not self.is_small():
            raise SpaceError(
                f"Space {self.name!r} holds 10^{self.log10_size:.1f} strategies for model {self.model.name!r}; "
                f"only up to {SMALL} are enumerated. Sample it instead."
            )
        return iter(self._all)

    def contains(self, strategy: Strategy) -> bool:
        return self.why_not(strategy) is None

    def why_not(self, strategy: Strategy) -> str | None:
        """The first reason, as a sentence, why `strategy` lies outside the space; None if it lies inside."""
        if set(strategy.replicas) != set(self.replicas):
            return f"The space trains on the replicas {', '.join(self.replicas)}, not {', '.join(strategy.replicas)}."
        for name in strategy.by_name:
            if name not in self.domains.index_of:
                return f"Model {self.model.name!r} has no variable {name!r}."
        for domain in self.domains.each:
            decision = strategy.by_name.get(domain.variable.name)
            if decision is None:
                return f"Variable {domain.variable.name!r} is not decided."
            reason = domain.why_not(decision)
            if reason:
                return reason
        if strategy.discipline != PLAIN:
            return "A space holds strategies whose steps are all alike, but this one has a discipline."
        if strategy.ddp is not None:
            return "A space holds strategies of the engine, but DistributedDataParallel itself carries out this one."
        if strategy.overlap_next_forward and not self.domains.overlap:
            return "Its steps overlap with the next forward pass; the space offers steps with a barrier only."
        if strategy.overlap_next_forward and not can_overlap(list(strategy.variables)):
            return "Steps overlap with the next forward pass only if no server is stale."
        for name in strategy.rows_apart:
            if name not in self.domains.tied:
                return (
                    f"The looked-up rows of variable {name!r} are sent apart; the space offers to send them together."
                )
        return self._why_not_staleness(strategy) or self._why_not_buckets(strategy)

    def sample(self, rng: random.Random) -> Strategy:
        """Sample a strategy, style first and noise afterwards (see `autosync.space.sampling`); not uniform."""
        draft, overlaps = draw_overlap(self.domains, sample_draft(self.domains, rng), rng)
        return self._strategy(draft, overlaps, draw_rows_apart(self.domains, rng))

    def mutate(self, strategy: Strategy, rng: random.Random) -> Strategy:
        """A strategy one to three moves from `strategy`, different from it if there is a neighbour."""
        draft, overlaps, tables = self._parts(strategy, rng)
        start = self._strategy(draft, overlaps, tables)
        for _ in range(TRIES):
            flipped = mutate_rows_apart(self.domains, draft, tables, rng)
            if flipped is not None:
                result = self._strategy(flipped[0], overlaps, flipped[1])
            else:
                changed = mutate_overlap(self.domains, draft, overlaps, rng)
                result = self._strategy(*(changed or (mutate_draft(self.domains, draft, rng), overlaps)), tables)
            if result != start:
                return result
        return start

    def relieve(
        self, strategy: Strategy, shares: Mapping[str, float], busy: Collection[str], rng: random.Random
    ) -> Strategy:
        """A strategy that moves load off a busy resource; if no such move applies, a mutation.

        `shares` is the share of the resource's time that each variable takes; `busy` are the servers that load it.
        """
        draft, overlaps, tables = self._parts(strategy, rng)
        by_index = {self.domains.index_of[name]: share for name, share in shares.items()}
        if self.domains.overlap and not overlaps and can_overlap(draft) and rng.random() < OVERLAP_RELIEF:
            return self._strategy(draft, True, tables)
        together = [name for name in self.domains.tied if name in shares and name not in tables]
        if together and rng.random() < ROWS_RELIEF:
            return self._strategy(in_own_buckets(self.domains, draft, together[0]), overlaps, tables | {together[0]})
        if self.domains.overlap and overlaps:
            by_index = weigh_by_urgency(self.domains, by_index)
        changed = relieve(self.domains, draft, by_index, busy, rng)
        return self.mutate(strategy, rng) if changed is None else self._strategy(changed, overlaps, tables)

    def crossover(self, first: Strategy, second: Strategy, rng: random.Random) -> Strategy:
        """A strategy with either parent's decision for each variable."""
        overlaps = first.overlap_next_forward
        if overlaps != second.overlap_next_forward:
            overlaps = rng.random() < 0.5
        draft = cross(self.domains, self._draft(first, rng), self._draft(second, rng), rng)
        tables = cross_rows_apart(first.rows_apart, second.rows_apart, self.domains, rng)
        return self._strategy(draft, overlaps, tables)

    def with_other_overlap(self, strategy: Strategy) -> tuple[Strategy, ...]:
        """`strategy` with the other decision about the overlap with the next forward pass, and overlapped with small
        buckets (`small_bucket_drafts`); empty if the space offers no overlap of `strategy`.
        """
        if not self.domains.overlap or not self.contains(strategy):
            return ()
        draft = [strategy.by_name[domain.variable.name] for domain in self.domains.each]
        if not can_overlap(draft):
            return ()
        tables = strategy.rows_apart
        twin = self._strategy(draft, not strategy.overlap_next_forward, tables)
        small = [self._strategy(suited, True, tables) for suited in small_bucket_drafts(self.domains, draft)]
        return tuple(candidate for candidate in dict.fromkeys((twin, *small)) if candidate != strategy)

    def with_other_rows(self, strategy: Strategy) -> tuple[Strategy, ...]:
        """`strategy` with the other decision about the rows of each tied table, in the same buckets and in its own;
        empty if the space offers no such decision."""
        if not self.domains.tied or not self.contains(strategy):
            return ()
        draft = [strategy.by_name[domain.variable.name] for domain in self.domains.each]
        candidates = [
            self._strategy(suited, strategy.overlap_next_forward, frozenset(strategy.rows_apart) ^ {name})
            for name in self.domains.tied
            for suited in (draft, in_own_buckets(self.domains, draft, name))
        ]
        return tuple(candidate for candidate in dict.fromkeys(candidates) if candidate != strategy)

    def adopt(self, strategy: Strategy, rng: random.Random) -> Strategy:
        """The strategy inside the space that is nearest to `strategy`; the same decisions if it lies inside."""
        return self._strategy(*self._parts(strategy, rng))

    def canonical(self, strategy: Strategy) -> Strategy:
        """The strategy that represents all that differ from `strategy` only by devices that are alike.

        Nodes are never alike if an all-reduce loads the links of some replicas more than those of others.
        """
        apart = self._each_node_apart if self._loads_nodes_unlike(strategy) else self._apart
        return canonical_strategy(strategy, self.cluster, apart)

    @cached_property
    def _count(self) -> int:
        return count_strategies(self.domains)

    @cached_property
    def _all(self) -> tuple[Strategy, ...]:
        by_digest: dict[str, Strategy] = {}
        for draft in all_drafts(self.domains):
            for overlaps in (False, True) if self.domains.overlap else (False,):
                for tables in all_rows_apart(self.domains):
                    strategy = self._strategy(draft, overlaps, tables)
                    by_digest.setdefault(strategy.digest, strategy)
        return tuple(by_digest.values())

    def _loads_nodes_unlike(self, strategy: Strategy) -> bool:
        return (bool(strategy.rows_apart) and self._gathers_unevenly) or any(
            shard.algorithm in self._asymmetric_algorithms
            or (self._gathers_unevenly and self._gathers(decision.variable, shard))
            for decision in strategy.variables
            for shard in decision.reductions
        )

    def _gathers(self, variable: str, shard: AllReduce) -> bool:
        """Whether replicas all-gather rows, factors or indices."""
        return self.model.by_name[variable].sparse or isinstance(shard.compressor, TopK | SufficientFactors)

    @cached_property
    def _gathers_unevenly(self) -> bool:
        return gather_among(Topology(self.cluster, self.replicas)).is_uneven

    @cached_property
    def _asymmetric_algorithms(self) -> frozenset[str]:
        """The algorithms that load the links of some nodes more than the links of others."""
        return frozenset(name for name in ALGORITHMS if layout_of(name).uneven(self.cluster))

    @cached_property
    def _apart(self) -> tuple[frozenset[str], ...]:
        """Sets of devices that rules treat differently from other devices."""
        everywhere = frozenset(str(device) for device in self.cluster.server_devices)
        sets = dict.fromkeys(frozenset(domain.devices) for domain in self.domains.each)
        return tuple(devices for devices in sets if devices and devices != everywhere)

    @cached_property
    def _each_node_apart(self) -> tuple[frozenset[str], ...]:
        return (*self._apart, *(frozenset(map(str, node.cpu_devices)) for node in self.cluster.nodes))

    def _draft(self, strategy: Strategy, rng: random.Random) -> Draft:
        if not self.contains(strategy):
            return project(self.domains, strategy, rng)
        return [strategy.by_name[domain.variable.name] for domain in self.domains.each]

    def _parts(self, strategy: Strategy, rng: random.Random) -> tuple[Draft, bool, frozenset[str]]:
        """The arguments of `_strategy`."""
        return self._draft(strategy, rng), strategy.overlap_next_forward, frozenset(strategy.rows_apart)

    def _strategy(self, draft: Draft, overlaps: bool, tables: Collection[str] = ()) -> Strategy:
        """The strategy of `draft`, overlapped with the next forward pass if wanted, with the looked-up rows of `tables`
        apart; both only if offered and possible."""
        draft = settle_staleness(self.domains, within_limits(self.domains, draft))
        is_fresh = can_overlap(draft)
        apart = [name for name in tables if name in self.domains.tied and is_fresh]
        overlaps = overlaps and self.domains.overlap and is_fresh
        decided = tuple(with_rows_apart(draft, apart))
        return self.canonical(Strategy(self.replicas, decided, overlap_next_forward=overlaps))

    def _why_not_staleness(self, strategy: Strategy) -> str | None:
        stalenesses = {shard.staleness for decision in strategy.variables for shard in decision.servers}
        for steps in sorted(stalenesses - set(self.domains.staleness)):
            offered = ", ".join(map(str, self.domains.staleness))
            return f"Replicas may run ahead by {steps} steps; the space offers a staleness of {offered}."
        if stalenesses - {0} and (len(stalenesses) > 1 or not can_be_stale(list(strategy.variables))):
            return (
                f"Replicas may run ahead by {max(stalenesses)} steps with some shards only; all must have one "
                f"staleness, on parameter servers, uncompressed and without local copies."
            )
        return None

    def _why_not_buckets(self, strategy: Strategy) -> str | None:
        kinds: dict[int, BucketKind] = {}
        for domain in self.domains.each:
            for shard in strategy.by_name[domain.variable.name].reductions:
                kind = domain.bucket_kind(shard)
                if kinds.setdefault(shard.group, kind) != kind:
                    return (
                        f"Bucket {shard.group} mixes {_kind_text(kinds[shard.group])} with {_kind_text(kind)} "
                        f"gradients (variable {domain.variable.name!r}); a bucket of the space holds one kind."
                    )
        counts: dict[BucketKind, int] = {}
        for kind in kinds.values():
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] > self.domains.max_buckets:
                return (
                    f"There are more than {self.domains.max_buckets} buckets of {_kind_text(kind)} gradients; "
                    f"the space allows no more."
                )
        return None


def _kind_text(kind: BucketKind) -> str:
    words = ["sparse" if kind.sparse else "dense", kind.dtype]
    if kind.algorithm != "ring":
        words.insert(0, kind.algorithm)
    if kind.compressor:
        words.append(compressor_text(kind.compressor))
    return " ".join(words)
