"""Plans repairs of lanes when nodes have left or joined, from seats and machines alone."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from autosync.spec import ClusterSpec, Node
from trials.cluster.node_matching import addresses_of, find_seats, reseat


@dataclass(frozen=True)
class LaneSeat:
    """The nodes of a lane, now or after its move. Only an `idle` lane, without a trial or a move, can be moved."""

    lane: str
    cluster: ClusterSpec
    idle: bool = True


@dataclass(frozen=True)
class RepairPlan:
    """A plan of repairs."""

    moves: dict[str, ClusterSpec] = field(default_factory=dict)
    """The new seats of lanes to move."""
    broken: list[str] = field(default_factory=list)
    """Lanes that lack nodes while no node is spare."""
    given_up: list[str] = field(default_factory=list)
    """Lanes whose nodes go to other lanes."""
    joins: list[list[str]] = field(default_factory=list)
    """Groups of addresses for new lanes."""


def plan_repair(
    lanes: Sequence[LaneSeat], alike: ClusterSpec, machines: Mapping[str, Node], usable: Collection[str]
) -> RepairPlan:
    """Plan repairs so that as many lanes as possible are whole. New lanes are like `alike`.

    `machines` are the living ones; only those at `usable` addresses may be used.
    """
    plan = RepairPlan()
    seated = {address for seat in lanes for address in addresses_of(seat.cluster)}
    spare = [address for address in machines if address in usable and address not in seated]
    incomplete = [seat for seat in lanes if seat.idle and not _complete(seat, machines)]
    while incomplete:
        lane = incomplete.pop(0)
        # The living nodes of another incomplete lane are more useful here than idle there.
        donors = {address: seat for seat in incomplete for address in addresses_of(seat.cluster) if address in machines}
        goal = reseat(lane.cluster, machines, [*spare, *donors])
        if goal is None:
            plan.broken.append(lane.lane)
            continue
        plan.moves[lane.lane] = goal
        givers = {donors[address].lane: donors[address] for address in addresses_of(goal) if address in donors}
        for donor in givers.values():
            plan.given_up.append(donor.lane)
            incomplete.remove(donor)
            spare += [address for address in addresses_of(donor.cluster) if address in machines]
        spare = [address for address in spare if address not in addresses_of(goal)]
    while group := find_seats(alike, machines, spare):
        plan.joins.append(group)
        spare = [address for address in spare if address not in group]
    return plan


def _complete(lane: LaneSeat, machines: Mapping[str, Node]) -> bool:
    return all(address in machines for address in addresses_of(lane.cluster))
