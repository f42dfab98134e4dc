"""A few knobs for the whole graph, like those of training frameworks' autotuners.

Horovod's autotuner (`horovod/common/parameter_manager.cc`) tunes the bytes of its fusion buffer, the time between
rounds, and whether all-reduces are hierarchical; BytePS's partition size and number of servers are tuned in the same
way (Peng et al., "A Generic Communication Scheduler for Distributed DNN Training Acceleration", SOSP 2019). All of
these that apply here are knobs, and the choice between servers and all-reduce is one more.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

from autosync.search.rivals.encoding import Dimension, Point, draw_point, neighbour
from autosync.search.rivals.knob_setting import KINDS, KnobSetting, nearest_setting
from autosync.space import SearchSpace
from autosync.spec import Strategy

LEAST_BUCKET_BYTES = 65_536
LEADERS = 5


@final
@dataclass(frozen=True)
class _Knob:
    """One dimension with the value of each of its numbers."""

    name: str
    values: tuple[object, ...]
    ordered: bool

    def number_of(self, value: object) -> int:
        """Return the number of `value`; for an unlisted size, the nearest on a logarithmic scale; else 0."""
        if value in self.values:
            return self.values.index(value)
        if not self.ordered or not isinstance(value, int | float):
            return 0
        if math.isinf(value):
            return len(self.values) - 1
        apart = [abs(math.log(float(size) / value)) for size in self.values]  # type: ignore[arg-type]
        return min(range(len(apart)), key=apart.__getitem__)


@final
class Knobs:
    """Eight knobs. A knob with one choice in a space is not a dimension."""

    suffix = "-knobs"

    def __init__(self, space: SearchSpace, candidates: int = 300) -> None:
        """Draw half of the `candidates` uniformly; the other half are neighbours of leaders."""
        self._space = space
        self._count = candidates

    @cached_property
    def dimensions(self) -> tuple[Dimension, ...]:
        return tuple(Dimension(knob.name, len(knob.values), knob.ordered) for knob in self._knobs)

    def point(self, strategy: Strategy) -> Point:
        setting = nearest_setting(self._space, strategy)
        return tuple(knob.number_of(getattr(setting, knob.name)) for knob in self._knobs)

    def strategy(self, point: Point) -> Strategy:
        chosen = dict(self._constants)
        chosen |= {knob.name: knob.values[number] for knob, number in zip(self._knobs, point, strict=True)}
        return self._space.adopt(KnobSetting(**chosen).strategy(self._space), random.Random(0))  # type: ignore[arg-type]

    def candidates(self, leaders: Sequence[Strategy], rng: random.Random) -> list[Strategy]:
        points = [self.point(leader) for leader in leaders[:LEADERS]]
        near = [neighbour(self.dimensions, rng.choice(points), rng) for _ in range(self._count // 2 if points else 0)]
        drawn = [draw_point(self.dimensions, rng) for _ in range(self._count - len(near))]
        return [self.strategy(point) for point in dict.fromkeys([*near, *drawn])]

    @cached_property
    def _knobs(self) -> tuple[_Knob, ...]:
        return tuple(knob for knob in self._all if len(knob.values) > 1)

    @cached_property
    def _constants(self) -> dict[str, object]:
        """The values of the knobs without a choice in this space."""
        return {knob.name: knob.values[0] for knob in self._all if len(knob.values) == 1}

    @cached_property
    def _all(self) -> tuple[_Knob, ...]:
        domains = self._space.domains
        total = sum(domain.gradient_bytes for domain in domains.each)
        doublings = max(0, math.ceil(math.log2(total / LEAST_BUCKET_BYTES)))
        sizes = tuple(LEAST_BUCKET_BYTES << power for power in range(doublings + 1))
        algorithms = dict.fromkeys(shard.algorithm for domain in domains.each for shard in domain.reductions)
        copies = dict.fromkeys(copy for domain in domains.each for copy in domain.copies)
        servers = max(1, len(domains.devices))
        return (
            _Knob("kind", KINDS, ordered=False),
            _Knob("big_bytes", sizes, ordered=True),
            _Knob("bucket_bytes", sizes, ordered=True),
            _Knob("cut_bytes", (*sizes, math.inf) if domains.cuttable else (math.inf,), ordered=True),
            _Knob("servers", tuple(range(1, servers + 1)), ordered=True),
            _Knob("algorithm", tuple(algorithms) or ("ring",), ordered=False),
            _Knob("local_copy", tuple(copies) or (False,), ordered=False),
            _Knob("overlap", (False, True) if domains.overlap else (False,), ordered=False),
        )
