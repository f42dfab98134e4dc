"""The menu of disciplines: the systems of the literature, with their authors' settings where these carry over.

What hangs on the number of replicas follows it. A step count or a threshold that means epochs of a data set, or norms
of a network, means nothing elsewhere; then the nearest setting that does is taken, and `source` says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autosync.spec import (
    BlockMomentum,
    ClusterSpec,
    CutOff,
    Discipline,
    Elastic,
    Fidelity,
    Loads,
    ModelSpec,
    Probed,
    Rhythm,
    Transport,
)

RATIOS = (1.0, 0.1, 0.05, 0.025, 0.00625, 0.001)
"""GraVAC's candidates, 10 to 1000 times less, and all of the gradient for where none holds enough of it."""

LEVELS = (0.1, 0.033, 0.011, 0.004, 0.001)
"""The ratios that AR-Topk's controller chooses among."""

PAIRS = 2
"""Of how many offers at most a combination is made."""


@dataclass(frozen=True)
class Offer:
    """A discipline under a name, with the settings of its `source`.

    With `keeps` every dense gradient that is all-reduced is compressed by top-k, which keeps this share of it.
    """

    name: str
    source: str
    discipline: Discipline
    keeps: float | None = None


def menu_for(model: ModelSpec, cluster: ClusterSpec, replicas: Sequence[str]) -> tuple[Offer, ...]:
    """What is offered to strategies of these replicas."""
    nodes = [cluster.node(replica.rpartition("/")[0]) for replica in replicas]
    streams = [node.pace.stream for node in nodes if node.pace is not None and node.pace.stream is not None]
    return tuple(menu(len(replicas), probed_in(model, cluster, replicas), streams))


def probed_in(model: ModelSpec, cluster: ClusterSpec, replicas: Sequence[str]) -> Probed:
    """What a message and a whole dense gradient take between the two replicas for which that is most."""
    dense = sum(each.gradient_bytes for each in model.variables if not each.sparse)
    nodes = dict.fromkeys(replica.rpartition("/")[0] for replica in replicas)
    routes = [cluster.route(one, other) for one, other in itertools.permutations(nodes, 2)]
    return Probed(
        max((sum(link.latency_seconds for link in route) for route in routes), default=0.0),
        max((dense / link.bytes_per_second for route in routes for link in route), default=0.0),
    )


def menu(replicas: int, probed: Probed, streams: Sequence[float] = ()) -> Iterator[Offer]:
    """What is offered to so many replicas, with what was `probed` of their links and the examples a second that come
    to each, if they come in streams.
    """
    if replicas > 2:
        yield Offer("backup worker", "Chen et al. 2016, one of them", Discipline(waits=CutOff(replicas - 1)))
    yield Offer("elfving", "as BDSGD's rival", Discipline(waits=CutOff(policy="elfving")))
    yield Offer("empirical", "BDSGD's reviewers", Discipline(waits=CutOff(policy="empirical")))
    yield Offer("filter", "a positive filter", Discipline(waits=CutOff(policy="filter")))
    yield Offer("bandit", "BDSGD's reviewers", Discipline(waits=CutOff(policy="bandit")))
    yield Offer("bdsgd", "Teng and Wood 2018, with censoring", Discipline(waits=CutOff(policy="learned")))
    yield Offer("dbw", "Xu et al. 2020, by the noise scale", Discipline(waits=CutOff(policy="gain")))
    yield Offer("local sgd", "Stich 2019, 8 steps", Discipline(Rhythm(8)))
    yield Offer("post-local sgd", "Lin et al. 2020, 8 steps after 100", Discipline(Rhythm(8, after=100)))
    yield Offer("fedavg", "McMahan et al. 2017, 32 steps", Discipline(Rhythm(32)))
    yield Offer("selsync", "Tyagi and Swany 2023, threshold 0.3", Discipline(Rhythm(threshold=0.3)))
    yield Offer("selsync by quantile", "the same, a tenth of the steps", Discipline(Rhythm(quantile=0.9)))
    block = BlockMomentum(1 - 1 / replicas)
    yield Offer("bmuf", "Chen and Huo 2016, 8 steps, momentum 1 - 1 / n", Discipline(Rhythm(8, block=block)))
    pull = Elastic(0.9 / replicas)
    yield Offer("easgd", "Zhang et al. 2015, 10 steps, beta 0.9", Discipline(Rhythm(10, elastic=pull)))
    yield Offer("top-k 0.1", "fixed", Discipline(fidelity=Fidelity((0.1,), 1)), 0.1)
    yield Offer("top-k 0.01", "fixed", Discipline(fidelity=Fidelity((0.01,), 1)), 0.01)
    warm_up = Fidelity((0.25, 0.0625, 0.015625, 0.004, 0.001), 50)
    yield Offer("dgc", "Lin et al. 2018, its warm-up 50 steps each", Discipline(fidelity=warm_up), 0.001)
    yield Offer(
        "gravac", "Tyagi and Swany 2023, 0.7, window 25", Discipline(fidelity=Fidelity(RATIOS, 25, keeps=0.7)), 0.1
    )
    yield Offer(
        "gravac 0.9", "Tyagi and Swany 2023, 0.9, window 25", Discipline(fidelity=Fidelity(RATIOS, 25, keeps=0.9)), 0.1
    )
    accordion = Fidelity((0.1, 0.01), 25, changes=0.5)
    yield Offer("accordion", "Agarwal et al. 2021, 0.5, 25 steps", Discipline(fidelity=accordion), 0.1)
    ways = Transport("own"), Transport("star", "ring"), Transport("star", "tree")
    by_formula = Fidelity((0.01,), 1, transports=ways, probed=probed)
    yield Offer("ar-topk", "Tyagi and Swany 2023, 0.01", Discipline(fidelity=by_formula), 0.01)
    knee = Fidelity(LEVELS, 1, transports=ways, probed=probed, time_weight=0.6)
    yield Offer("ar-topk knee", "the same, time weighs 0.6", Discipline(fidelity=knee), 0.1)
    tried = Fidelity((0.01,), 100, transports=ways)
    yield Offer("ar-topk by trial", "0.01, transports tried every 100 steps", Discipline(fidelity=tried), 0.01)
    dynamic = Loads((1.0,) * replicas, dead_band=0.05)
    yield Offer("dynamic batching", "Tyagi and Sharma 2020, dead band 0.05", Discipline(loads=dynamic))
    if len(streams) == replicas:
        scadles = Loads(tuple(each / max(streams) for each in streams))
        yield Offer("scadles", "Tyagi and Swany 2022, examples as they come", Discipline(loads=scadles))
