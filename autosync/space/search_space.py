"""The search space: a declared space bound to a model and a cluster."""

import math
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

from autosync.errors import SpaceError
from autosync.layout.all_reduce import laid_out
from autosync.layout.gather import gather_among
from autosync.layout.topology import Topology
from autosync.space.adoption import adopted
from autosync.space.buckets import within_limits
from autosync.space.crossover import crossed
from autosync.space.domain import BucketKind, Draft
from autosync.space.domains import Domains
from autosync.space.enumeration import all_drafts
from autosync.space.mutation import perturbed
from autosync.space.naming import compressor_text
from autosync.space.relief_moves import relieved
from autosync.space.sampling import sampled
from autosync.space.size import count_strategies, log_choices
from autosync.space.staleness import can_be_stale, settled
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
"""Mutations tried before a strategy is taken to have no other near it."""


@final
@dataclass(frozen=True)
class SearchSpace:
    """The strategies that `Space.bind` offers for one model on one cluster; replicas run on all its replica devices.

    Every strategy it gives is valid, inside the space and canonical: of those that differ only by devices that are
    alike, one stands for all. Devices are alike here when no rule tells them apart either. Randomness comes only from
    the `rng` given: same arguments, same strategy, in any process.
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
        """Logarithm of the exact number of strategies; buckets are unnamed, devices that are alike count apart."""
        return math.log10(self._count)

    @property
    def decided_variables(self) -> int:
        """Variables with more than one decision to choose from: the space's dimension, taking each as one."""
        return sum(choices > 0 for choices in log_choices(self.domains))

    @cached_property
    def effective_dimension(self) -> float:
        """How many variables with equally many decisions would make as large a space: the participation ratio

            (sum_i h_i)^2 / sum_i h_i^2,   h_i = log of the number of decisions on variable i alone.

        It says how far the space is from what models of few dimensions, such as Gaussian processes on knobs, can hold.
        """
        choices = log_choices(self.domains)
        squares = sum(each**2 for each in choices)
        return sum(choices) ** 2 / squares if squares else 0.0

    @cached_property
    def size(self) -> int | None:
        """Number of different strategies that `enumerate` gives, or None when the space is not small."""
        return len(self._all) if self.is_small() else None

    def is_small(self) -> bool:
        """Whether the space can be enumerated."""
        return self._count <= SMALL

    def enumerate(self) -> Iterator[Strategy]:
        """Every strategy once. Raises `SpaceError` when there are too many."""
        if not self.is_small():
            raise SpaceError(
                f"Space {self.name!r} holds 10^{self.log10_size:.1f} strategies for model {self.model.name!r}; "
                f"only up to {SMALL} are enumerated. Sample it instead."
            )
        return iter(self._all)

    def contains(self, strategy: Strategy) -> bool:
        return self.why_not(strategy) is None

    def why_not(self, strategy: Strategy) -> str | None:
        """One sentence with the first reason why `strategy` lies outside the space; None when it lies inside."""
        if set(strategy.replicas) != set(self.replicas):
            return f"The space trains on the replicas {', '.join(self.replicas)}, not {', '.join(strategy.replicas)}."
        for name in strategy.by_name:
            if name not in self.domains.index_of:
                return f"Model {self.model.name!r} has no variable {name!r}."
        for domain in self.domains.each:
            each = strategy.by_name.get(domain.variable.name)
            if each is None:
                return f"Variable {domain.variable.name!r} is not decided."
            reason = domain.why_not(each)
            if reason:
                return reason
        if strategy.discipline != PLAIN:
            return "A space holds strategies whose steps are all alike, but this one has a discipline."
        return self._why_not_staleness(strategy) or self._why_not_buckets(strategy)

    def sample(self, rng: random.Random) -> Strategy:
        """A strategy drawn style first, noise after (see `autosync.space.sampling`); not uniform."""
        return self._strategy(sampled(self.domains, rng))

    def mutate(self, strategy: Strategy, rng: random.Random) -> Strategy:
        """A strategy one to three moves from `strategy`, and different from it if there is any other nearby."""
        draft = self._draft(strategy, rng)
        start = self._strategy(draft)
        for _ in range(TRIES):
            result = self._strategy(perturbed(self.domains, draft, rng))
            if result.variables != start.variables:
                return result
        return start

    def relieve(
        self, strategy: Strategy, shares: Mapping[str, float], busy: Collection[str], rng: random.Random
    ) -> Strategy:
        """A strategy that takes something off a busy resource, or carries it another way; else as `mutate` does.

        `shares` says what part of the resource's time each variable takes, `busy` which servers load it.
        """
        draft = self._draft(strategy, rng)
        by_index = {self.domains.index_of[name]: share for name, share in shares.items()}
        changed = relieved(self.domains, draft, by_index, busy, rng)
        return self.mutate(strategy, rng) if changed is None else self._strategy(changed)

    def crossover(self, first: Strategy, second: Strategy, rng: random.Random) -> Strategy:
        """A strategy that decides each variable as one of its parents does."""
        return self._strategy(crossed(self.domains, self._draft(first, rng), self._draft(second, rng), rng))

    def adopt(self, strategy: Strategy, rng: random.Random) -> Strategy:
        """The strategy inside the space that is nearest to `strategy`; the same decisions where it lies inside."""
        return self._strategy(self._draft(strategy, rng))

    def canonical(self, strategy: Strategy) -> Strategy:
        """The strategy that stands for all that differ from `strategy` only by devices that are alike.

        Nodes are told apart where an all-reduce loads the links of some replicas more than those of others.
        """
        apart = self._each_node_apart if self._loads_nodes_unlike(strategy) else self._apart
        return canonical_strategy(strategy, self.cluster, apart)

    @cached_property
    def _count(self) -> int:
        return count_strategies(self.domains)

    @cached_property
    def _all(self) -> tuple[Strategy, ...]:
        found: dict[str, Strategy] = {}
        for draft in all_drafts(self.domains):
            strategy = self._strategy(draft)
            found.setdefault(strategy.digest, strategy)
        return tuple(found.values())

    def _loads_nodes_unlike(self, strategy: Strategy) -> bool:
        return any(
            shard.algorithm in self._uneven or (self._gathers_unevenly and self._gathers(each.variable, shard))
            for each in strategy.variables
            for shard in each.reductions
        )

    def _gathers(self, variable: str, shard: AllReduce) -> bool:
        """Whether replicas tell each other rows, factors or places of theirs."""
        return self.model.by_name[variable].sparse or isinstance(shard.compressor, TopK | SufficientFactors)

    @cached_property
    def _gathers_unevenly(self) -> bool:
        return gather_among(Topology(self.cluster, self.replicas)).is_uneven

    @cached_property
    def _uneven(self) -> frozenset[str]:
        """The algorithms that load the links of some nodes more than those of others."""
        return frozenset(each for each in ALGORITHMS if laid_out(each).uneven(self.cluster))

    @cached_property
    def _apart(self) -> tuple[frozenset[str], ...]:
        """Sets of devices that rules tell apart from the others."""
        everywhere = frozenset(str(device) for device in self.cluster.server_devices)
        sets = dict.fromkeys(frozenset(domain.devices) for domain in self.domains.each)
        return tuple(devices for devices in sets if devices and devices != everywhere)

    @cached_property
    def _each_node_apart(self) -> tuple[frozenset[str], ...]:
        return (*self._apart, *(frozenset(map(str, node.cpu_devices)) for node in self.cluster.nodes))

    def _draft(self, strategy: Strategy, rng: random.Random) -> Draft:
        if not self.contains(strategy):
            return adopted(self.domains, strategy, rng)
        return [strategy.by_name[domain.variable.name] for domain in self.domains.each]

    def _strategy(self, draft: Draft) -> Strategy:
        draft = settled(self.domains, within_limits(self.domains, draft))
        return self.canonical(Strategy(self.replicas, tuple(draft)))

    def _why_not_staleness(self, strategy: Strategy) -> str | None:
        found = {shard.staleness for each in strategy.variables for shard in each.servers}
        for steps in sorted(found - set(self.domains.staleness)):
            offered = ", ".join(map(str, self.domains.staleness))
            return f"Replicas may run ahead by {steps} steps; the space offers a staleness of {offered}."
        if found - {0} and (len(found) > 1 or not can_be_stale(list(strategy.variables))):
            return (
                f"Replicas may run ahead by {max(found)} steps with some shards only; all must have one staleness, "
                f"on parameter servers, uncompressed and without local copies."
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
