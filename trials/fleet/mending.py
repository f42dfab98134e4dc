"""Mending: deciding which lanes go where when nodes have left or joined, from seats and machines alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from autosync.spec import ClusterSpec, Node
from trials.cluster.seats import addresses_of, reseated, seats


@dataclass(frozen=True)
class Seated:
    """A lane where it is or will be seated. Only an `idle` one, neither on trial nor on the move, can be moved."""

    lane: str
    cluster: ClusterSpec
    idle: bool = True


@dataclass(frozen=True)
class Mending:
    """Lanes to move and where to, those that are broken (nodes lack, and none is spare), those whose nodes were given
    to others, and addresses of groups for new lanes."""

    moves: dict[str, ClusterSpec] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    joins: list[list[str]] = field(default_factory=list)


def mending(
    lanes: Sequence[Seated], alike: ClusterSpec, machines: Mapping[str, Node], usable: Collection[str]
) -> Mending:
    """What to do so that as many lanes as possible are whole. New lanes are seated like `alike`.

    `machines` are the living ones; only those at `usable` addresses may be used.
    """
    plan = Mending()
    seated = {address for each in lanes for address in addresses_of(each.cluster)}
    spare = [each for each in machines if each in usable and each not in seated]
    incomplete = [each for each in lanes if each.idle and not _complete(each, machines)]
    while incomplete:
        lane = incomplete.pop(0)
        # The living nodes of another incomplete lane, too, serve better here than idle there.
        donors = {address: each for each in incomplete for address in addresses_of(each.cluster) if address in machines}
        goal = reseated(lane.cluster, machines, [*spare, *donors])
        if goal is None:
            plan.broken.append(lane.lane)
            continue
        plan.moves[lane.lane] = goal
        givers = {donors[address].lane: donors[address] for address in addresses_of(goal) if address in donors}
        for donor in givers.values():
            plan.given_up.append(donor.lane)
            incomplete.remove(donor)
            spare += [each for each in addresses_of(donor.cluster) if each in machines]
        spare = [each for each in spare if each not in addresses_of(goal)]
    while group := seats(alike, machines, spare):
        plan.joins.append(group)
        spare = [each for each in spare if each not in group]
    return plan


def _complete(lane: Seated, machines: Mapping[str, Node]) -> bool:
    return all(address in machines for address in addresses_of(lane.cluster))
