"""A menu of disciplines: what a race to a target offers, under the circumstances of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

from autosync.errors import SpaceError
from autosync.spec import PLAIN, BlockMomentum, CutOff, Discipline, Elastic, Fidelity, Loads, Probed, Rhythm, Transport

GRAVAC_RATIOS = (1.0, 0.1, 0.05, 0.025, 0.00625, 0.001)
"""GraVAC's candidates, 10 to 1000 times less, and all of the gradient for where none holds enough of it."""

AR_TOPK_RATIOS = (0.1, 0.033, 0.011, 0.004, 0.001)
"""Those that AR-Topk's controller chooses among."""

AR_TOPK_WAYS = Transport("own"), Transport("star", "ring"), Transport("star", "tree")


@dataclass(frozen=True)
class Circumstances:
    """Where training takes place: on so many `replicas`, of whose links something was `probed`; `streams` are the
    examples a second that come to each replica, where they come in streams.
    """

    replicas: int
    probed: Probed
    streams: tuple[float, ...] = ()


@dataclass(frozen=True)
class Offer:
    """A discipline under a name, with the settings of its `source`.

    With `keeps` every dense gradient that is all-reduced is compressed by top-k, which keeps this share of it. With
    `workers` only so many replicas train: those without which a step takes longest.
    """

    name: str
    source: str
    discipline: Discipline = PLAIN
    keeps: float | None = None
    workers: int | None = None


Found: TypeAlias = Callable[[Circumstances], Discipline | None]
"""The discipline under given circumstances; None where it is none."""


@dataclass(frozen=True)
class Entry:
    """What a menu offers: as of `Offer`, or what is `found` under the circumstances; `leaves` replicas out, if any are
    left then.
    """

    name: str
    source: str
    found: Discipline | Found = PLAIN
    keeps: float | None = None
    leaves: int = 0

    def of(self, around: Circumstances) -> Offer | None:
        """What it offers; None for nothing."""
        discipline = self.found if isinstance(self.found, Discipline) else self.found(around)
        if discipline is None or self.leaves >= around.replicas:
            return None
        workers = around.replicas - self.leaves if self.leaves else None
        return Offer(self.name, self.source, discipline, self.keeps, workers)


@final
@dataclass(frozen=True)
class Menu:
    """What there is to choose from. `description` is one line for a person."""

    name: str
    description: str
    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        names = [each.name for each in self.entries]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise SpaceError(f"Menu {self.name!r} offers {twice!r} twice; give each a name of its own.")

    def of(self, around: Circumstances) -> tuple[Offer, ...]:
        """What is offered under these circumstances."""
        return tuple(offer for each in self.entries if (offer := each.of(around)) is not None)


def backup_workers(count: int, around: Circumstances) -> Discipline | None:
    """A step does not wait for the last `count`."""
    return Discipline(waits=CutOff(around.replicas - count)) if around.replicas > count + 1 else None


def block_momentum(steps: int, around: Circumstances) -> Discipline:
    """A meeting every so many steps, with momentum 1 - 1 / n."""
    return Discipline(Rhythm(steps, block=BlockMomentum(1 - 1 / around.replicas)))


def elastic(steps: int, beta: float, around: Circumstances) -> Discipline:
    """An elastic meeting every so many steps, with pulls of `beta` together."""
    return Discipline(Rhythm(steps, elastic=Elastic(beta / around.replicas)))


def by_formula(
    ratios: tuple[float, ...], ways: tuple[Transport, ...], time_weight: float | None, around: Circumstances
) -> Discipline:
    """AR-Topk's formulas choose among `ways`; with a `time_weight` its controller chooses among `ratios`."""
    return Discipline(fidelity=Fidelity(ratios, 1, transports=ways, probed=around.probed, time_weight=time_weight))


def equal_loads(dead_band: float | None, times: float, around: Circumstances) -> Discipline:
    """Steps of `times` the examples, equal for all, or at first and then by their times outside of a `dead_band`."""
    return Discipline(loads=Loads((1.0,) * around.replicas, dead_band, times=times))


def streamed_loads(around: Circumstances) -> Discipline | None:
    """Examples as they come to each replica."""
    if len(around.streams) != around.replicas:
        return None
    return Discipline(loads=Loads(tuple(each / max(around.streams) for each in around.streams)))
