"""The domains of all variables of a model, and what can be said about them together."""

import random
from dataclasses import dataclass
from functools import cached_property
from typing import final

from autosync.space.domain import Domain
from autosync.space.knowledge import KNOWLEDGE
from autosync.spec import Compressor


@final
@dataclass(frozen=True)
class Domains:
    """The domains of a model's variables, in graph order, and how many buckets each bucket kind may have.

    `staleness` lists the numbers of steps that fast replicas may run ahead. All shards of a strategy have one, which is
    0 unless all are on parameter servers, uncompressed and without local copies. `knowledge` are the rules of
    `KNOWLEDGE` to go by.
    """

    each: tuple[Domain, ...]
    max_buckets: int
    staleness: tuple[int, ...] = (0,)
    knowledge: frozenset[str] = frozenset(KNOWLEDGE)

    @cached_property
    def index_of(self) -> dict[str, int]:
        return {domain.variable.name: index for index, domain in enumerate(self.each)}

    @cached_property
    def positions(self) -> tuple[int, ...]:
        """Variables' places in the order that buckets are cut from: that in which gradients are ready, if known."""
        if "bucket_order" in self.knowledge:
            return tuple(domain.variable.ready_order for domain in self.each)
        names = " ".join(domain.variable.name for domain in self.each)
        return tuple(random.Random(names).sample(range(len(self.each)), len(self.each)))

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Every device some variable may be put on, in the order first offered."""
        return tuple(dict.fromkeys(device for domain in self.each for device in domain.devices))

    @cached_property
    def compressors(self) -> tuple[Compressor | None, ...]:
        """Every compressor some variable may have, in the order first offered."""
        return tuple(dict.fromkeys(compressor for domain in self.each for compressor in domain.compressors))

    @cached_property
    def several_algorithms(self) -> bool:
        """Whether some variable has a choice of all-reduce algorithms."""
        return any(len({each.algorithm for each in domain.reductions}) > 1 for domain in self.each)

    @cached_property
    def alike(self) -> tuple[tuple[int, ...], ...]:
        """Variables of equal shape, dtype and choices, by index: those that a person would decide together."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for index, domain in enumerate(self.each):
            variable = domain.variable
            look = (variable.shape, variable.dtype, variable.sparse, domain.cuts, domain.servers, domain.reductions)
            groups.setdefault(look, []).append(index)
        return tuple(tuple(members) for members in groups.values())

    @cached_property
    def by_bytes(self) -> tuple[int, ...]:
        """Variables by index, the one with most gradient bytes first."""
        return tuple(sorted(range(len(self.each)), key=lambda index: -self.each[index].gradient_bytes))

    @cached_property
    def choosable(self) -> tuple[int, ...]:
        """Variables, by index, that may be of either kind."""
        return tuple(index for index, domain in enumerate(self.each) if len(domain.kinds) > 1)

    @cached_property
    def cuttable(self) -> tuple[int, ...]:
        """Variables, by index, with more than one cut to choose from."""
        return tuple(index for index, domain in enumerate(self.each) if len(domain.cuts) > 1)

    @cached_property
    def compressible(self) -> tuple[int, ...]:
        """Variables, by index, with more than one compressor, none included, to choose from."""
        return tuple(index for index, domain in enumerate(self.each) if len(domain.compressors) > 1)
