"""The domains of all variables of a model, and properties that they have together."""

import random
from dataclasses import dataclass
from functools import cached_property
from typing import final

from autosync.space.domain import Domain
from autosync.space.priors import KNOWLEDGE
from autosync.spec import Compressor


@final
@dataclass(frozen=True)
class Domains:
    """The domains of a model's variables, and limits for all of them together."""

    each: tuple[Domain, ...]
    """Domains in graph order of the variables."""
    max_buckets: int
    """The most buckets of each bucket kind."""
    staleness: tuple[int, ...] = (0,)
    """Numbers of steps that fast replicas may run ahead. All shards of a strategy have the same staleness, which is 0
    unless all are on parameter servers, uncompressed and without local copies."""
    knowledge: frozenset[str] = frozenset(KNOWLEDGE)
    """The active rules of `KNOWLEDGE`."""
    overlap: bool = False
    """Whether steps may overlap with the next forward pass."""
    read_order: tuple[int, ...] = ()
    """With `overlap`, positions of the variables in the order of their first reads (`windows.read_order`); empty
    without the rule `bucket_order`."""
    urgencies: tuple[float, ...] = ()
    """With `overlap`, the urgency of each variable's gradient; see `windows`."""
    tied: tuple[str, ...] = ()
    """Names of the tied tables whose looked-up rows may be sent apart."""

    @cached_property
    def index_of(self) -> dict[str, int]:
        return {domain.variable.name: index for index, domain in enumerate(self.each)}

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """Positions of the variables in the order in which buckets are formed: the ready order, or an arbitrary order
        without the rule `bucket_order`."""
        if "bucket_order" in self.knowledge:
            return tuple(domain.variable.ready_order for domain in self.each)
        names = " ".join(domain.variable.name for domain in self.each)
        return tuple(random.Random(names).sample(range(len(self.each)), len(self.each)))

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Every device that is offered to a variable, in order of first offer."""
        return tuple(dict.fromkeys(device for domain in self.each for device in domain.devices))

    @cached_property
    def compressors(self) -> tuple[Compressor | None, ...]:
        """Every compressor that is offered to a variable, in order of first offer."""
        return tuple(dict.fromkeys(compressor for domain in self.each for compressor in domain.compressors))

    @cached_property
    def several_algorithms(self) -> bool:
        """Whether a variable has a choice of all-reduce algorithms."""
        return any(len({shard.algorithm for shard in domain.reductions}) > 1 for domain in self.each)

    @cached_property
    def alike(self) -> tuple[tuple[int, ...], ...]:
        """Groups of variables, by index, with equal shape, dtype and choices, which a person would decide together."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for index, domain in enumerate(self.each):
            variable = domain.variable
            look = (variable.shape, variable.dtype, variable.sparse, domain.cuts, domain.servers, domain.reductions)
            groups.setdefault(look, []).append(index)
        return tuple(tuple(members) for members in groups.values())

    @cached_property
    def by_bytes(self) -> tuple[int, ...]:
        """Variables, by index, in descending order of gradient bytes."""
        return tuple(sorted(range(len(self.each)), key=lambda index: -self.each[index].gradient_bytes))

    @cached_property
    def choosable(self) -> tuple[int, ...]:
        """Variables, by index, that can be on servers or all-reduced."""
        return tuple(index for index, domain in enumerate(self.each) if len(domain.kinds) > 1)

    @cached_property
    def cuttable(self) -> tuple[int, ...]:
        """Variables, by index, with a choice of cuts."""
        return tuple(index for index, domain in enumerate(self.each) if len(domain.cuts) > 1)

    @cached_property
    def compressible(self) -> tuple[int, ...]:
        """Variables, by index, with a choice of compressors, where no compressor is a choice, too."""
        return tuple(index for index, domain in enumerate(self.each) if len(domain.compressors) > 1)
