"""The fleet: a lane for every group of nodes that can run a trial; repairs lanes when nodes leave and join."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

import ray
from ray.exceptions import RayTaskError

from autosync.errors import AutosyncError, ClusterError, NodesLostError, TrialError
from autosync.spec import ClusterSpec, ModelSpec, Node, RuntimeRecord, TargetRecord
from trials.cluster.node_matching import addresses_of, alike, seat_at
from trials.cluster.ray_labels import machines_of
from trials.fleet.lanes import RunOnLane
from trials.fleet.on_ray import Launch, RayBackend, RaySettings, RunByName
from trials.fleet.repair import LaneSeat, plan_repair
from trials.to_target import TargetRequest
from trials.trial import TrialRequest, reason_of

Record = TypeVar("Record", RuntimeRecord, TargetRecord)

LOOK_SECONDS = 1.0
"""Seconds between checks of the nodes while lanes are requested."""


@dataclass(frozen=True)
class FleetSettings:
    """The settings of a fleet."""

    trials: RaySettings = field(default_factory=RaySettings)
    """The settings of its trials."""
    node_wait_seconds: float = 600.0
    """Seconds to wait for nodes if every lane lacks some."""
    usable: frozenset[str] | None = None
    """The addresses of nodes that may be used; None for all nodes, including those that join later."""


@dataclass
class _Lane:
    """A lane of the fleet."""

    backend: RayBackend
    goal: ClusterSpec
    """The cluster where the lane is or will be seated."""
    busy: bool = False
    whole: bool = True
    """True if all of its nodes are alive."""
    moving: Any = None
    """The reference to the answer of a move under way; None otherwise."""

    @classmethod
    def of(cls, backend: RayBackend) -> _Lane:
        return cls(backend, backend.cluster)


@final
class Fleet:
    """Lanes on disjoint nodes of the Ray cluster that this process has joined. It is a `Backend` and offers `Lanes`.

    If lanes are probed, each lane after the first must be like the first. A node that leaves is replaced by a spare
    node like it, and enough joining nodes make a new lane. No lane is started or moved while trials are timed on other
    lanes, because its probe would disturb them. Only the process that made the fleet may use it; `runner` may be sent
    elsewhere.
    """

    def __init__(
        self, model: str, groups: Sequence[ClusterSpec], settings: FleetSettings, tell: Callable[[str], None]
    ) -> None:
        """`groups` are disjoint parts of the cluster with equally many nodes; `tell` gets a sentence when lanes change.

        Raises `ModelError` and `ClusterError` if the first lane cannot be made.
        """
        self._model_name = model
        self._settings = settings
        self._tell = tell
        first = RayBackend(Launch(model, groups[0], settings.trials))
        self.model: ModelSpec = first.model
        self.cluster: ClusterSpec = first.cluster
        self.notes = first.notes
        self.probing = first.probing
        """The report of the first lane's probe, as JSON; None if it was not probed."""
        self._lanes = {first.name: _Lane.of(first)}
        self._starting: tuple[ClusterSpec, Launch] | None = None
        self._waiting: list[ClusterSpec] = list(groups[1:])
        self._refused: set[str] = set()
        self._draining = False
        self._looked_at = 0.0
        self._lacking_since: float | None = None
        try:
            while self._starting or self._waiting:
                self._start_next_lane()
                time.sleep(0.05)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """The number of lanes that can run trials now."""
        return sum(lane.whole for lane in self._lanes.values())

    @property
    def addresses(self) -> frozenset[str]:
        """Addresses of the nodes that trials run on, or will run on once lanes have moved."""
        return frozenset(address for lane in self._all for address in addresses_of(lane.goal))

    def take(self) -> str | None:
        """Return a lane for a trial that starts now, or None.

        Raises `NodesLostError` when the wait for nodes is over.
        """
        if time.monotonic() - self._looked_at > LOOK_SECONDS:
            self._look_after_nodes()
            self._looked_at = time.monotonic()
        if self._draining or self._starting or self._waiting or any(lane.moving is not None for lane in self._all):
            return None
        for name, lane in self._lanes.items():
            if lane.whole and not lane.busy:
                lane.busy = True
                return name
        return None

    def give_back(self, lane: str, failure: str = "") -> None:
        self._lanes[lane].busy = False
        self._looked_at = 0.0  # check the nodes at the next `take`, because the trial may have been lost with one
        if not failure:
            return
        addresses = addresses_of(self._lanes[lane].backend.cluster)
        self._drop(lane)
        self._refused |= set(addresses)
        if not self._lanes:
            raise TrialError(failure)
        self._tell(f"{_words(addresses)} will no longer be used: {failure}")

    def runner(self) -> RunOnLane:
        return RunByName(self.model.name)

    def run(self, request: TrialRequest) -> RuntimeRecord:
        """Run one trial on the first free lane; wait while none is free."""
        return self._on_free_lane(lambda backend: backend.run(request))

    def train(self, request: TargetRequest) -> TargetRecord:
        """Train to a target on the first free lane; wait while none is free."""
        return self._on_free_lane(lambda backend: backend.train(request))

    def train_side_by_side(
        self,
        following: Callable[[Collection[TargetRequest]], TargetRequest | None],
        keep: Callable[[TargetRecord], None],
    ) -> None:
        """Train on all lanes in parallel, until `following` returns None and no request is under way.

        `following` returns the next request, given those under way, or None if it must wait for them or there is none.
        `keep` takes each record.
        """
        under_way: dict[Any, tuple[str, TargetRequest]] = {}
        while True:
            requests = [request for _, request in under_way.values()]
            request = following(requests)
            if request is None and not under_way:
                return
            lane = None if request is None else self.take()
            if request is not None and lane is not None:
                under_way[self._lanes[lane].backend.begin(request)] = lane, request
                continue
            if not under_way:
                time.sleep(LOOK_SECONDS)  # a lane is being started or repaired
                continue
            ready, _ = ray.wait(list(under_way), timeout=LOOK_SECONDS)
            for reference in ready:
                lane, _ = under_way.pop(reference)
                try:
                    record = self._lanes[lane].backend.end(reference)
                except TrialError as error:
                    self.give_back(lane, str(error))
                else:
                    self.give_back(lane)
                    keep(record)

    def _on_free_lane(self, run: Callable[[RayBackend], Record]) -> Record:
        while True:
            while (lane := self.take()) is None:
                time.sleep(LOOK_SECONDS)
            try:
                record = run(self._lanes[lane].backend)
            except TrialError as error:
                self.give_back(lane, str(error))
            except BaseException:
                self.give_back(lane)
                raise
            else:
                self.give_back(lane)
                return record

    def adopt(self, cluster: ClusterSpec) -> None:
        """Let records of all lanes name the figures of `cluster`, with their own addresses."""
        self.cluster = seat_at(cluster, addresses_of(self.cluster))
        for lane in self._lanes.values():
            lane.backend.adopt(seat_at(cluster, addresses_of(lane.backend.cluster)))
            lane.goal = lane.backend.cluster

    def close(self) -> None:
        """End every process of every lane. A second call does nothing."""
        self._waiting.clear()
        if self._starting:
            self._starting[1].close()
            self._starting = None
        for lane in self._lanes.values():
            lane.backend.close()

    @property
    def _all(self) -> Collection[_Lane]:
        return self._lanes.values()

    def _look_after_nodes(self) -> None:
        machines = machines_of(ray.nodes())
        self._refused &= machines.keys()
        for lane in self._lanes.values():
            self._settle(lane, machines)
        self._start_next_lane()
        self._repair(machines)
        self._check_for_lanes()

    def _repair(self, machines: Mapping[str, Node]) -> None:
        """Move lanes whose nodes have left, and start new lanes, once the trials under way are over."""
        starting = [self._starting[0]] if self._starting else []
        seated = [
            LaneSeat(name, lane.goal, not lane.busy and lane.moving is None) for name, lane in self._lanes.items()
        ]
        seated += [LaneSeat("", group, idle=False) for group in (*starting, *self._waiting)]
        plan = plan_repair(seated, self.cluster, machines, self._usable(machines))
        for seat in seated:
            if seat.idle:
                self._mark(self._lanes[seat.lane], machines)
        self._draining = bool(plan.moves or plan.joins) and self._disturbs()
        if self._draining:
            return
        for name in plan.given_up:
            self._drop(name)
        for name, goal in list(plan.moves.items())[:1]:  # one move at a time
            self._move(self._lanes[name], goal)
        for group in plan.joins:
            self._tell(f"{_words(group)} joined, so trials will run there too.")
            self._waiting.append(seat_at(self.cluster, group))

    def _usable(self, machines: Collection[str]) -> set[str]:
        allowed = self._settings.usable
        return {
            address for address in machines if address not in self._refused and (allowed is None or address in allowed)
        }

    def _disturbs(self) -> bool:
        """True if a probe now would disturb a trial or another probe."""
        return bool(self._starting) or any(lane.busy or lane.moving is not None for lane in self._all)

    def _mark(self, lane: _Lane, machines: Collection[str]) -> None:
        gone = [address for address in addresses_of(lane.backend.cluster) if address not in machines]
        if gone and lane.whole:
            self._tell(f"{_words(gone)} left the cluster.")
        lane.whole = not gone

    def _move(self, lane: _Lane, goal: ClusterSpec) -> None:
        here, there = addresses_of(lane.backend.cluster), addresses_of(goal)
        pairs = [(old, new) for old, new in zip(here, there, strict=True) if old != new]
        self._tell(" ".join(f"Node {new} will replace {old}." for old, new in pairs))
        lane.whole, lane.goal, lane.moving = False, goal, lane.backend.begin_move(there)

    def _settle(self, lane: _Lane, machines: Mapping[str, Node]) -> None:
        """Finish the move of a lane whose supervisor has answered."""
        if lane.moving is None or not ray.wait([lane.moving], timeout=0)[0]:
            return
        before, there = addresses_of(lane.backend.cluster), addresses_of(lane.goal)
        why, lane.moving = lane.backend.end_move(lane.moving, lane.goal), None
        if why and all(address in machines for address in there):  # otherwise another node may be the cause
            new = [address for address in there if address not in before]
            self._refused |= set(new)
            self._tell(f"{_words(new)} cannot be used: {why}")
        lane.goal, lane.whole = lane.backend.cluster, not why

    def _drop(self, name: str) -> None:
        self._lanes.pop(name).backend.close()

    def _start_next_lane(self) -> None:
        """Add the lane that has started, then start the next.

        Lanes start one after another, lest probes share a link.
        """
        if self._starting and self._starting[1].is_over():
            group, launch = self._starting
            self._starting = None
            try:
                self._add_lane(launch)
            except (AutosyncError, RayTaskError) as error:
                self._refused |= set(addresses_of(group))
                why = str(error) if isinstance(error, AutosyncError) else reason_of(error)
                self._tell(f"{_words(addresses_of(group))} cannot be used: {why}")
        if self._waiting and not self._disturbs():
            group = self._waiting.pop(0)
            captured = next((lane.backend.captured for lane in self._lanes.values()), None)
            self._starting = group, Launch(self._model_name, group, self._settings.trials, captured)

    def _add_lane(self, launch: Launch) -> None:
        """Add a new lane, if it is like the first. Raises `ClusterError`."""
        backend = RayBackend(launch)
        try:
            if different := alike(self.cluster, backend.cluster):
                raise ClusterError(f"Nodes on which trials run side by side must be alike, but there are {different}.")
            backend.adopt(seat_at(self.cluster, addresses_of(backend.cluster)))
        except BaseException:
            backend.close()
            raise
        self._lanes[backend.name] = _Lane.of(backend)

    def _check_for_lanes(self) -> None:
        """Raise `NodesLostError` if no lane is whole and none will be."""
        usable = (lane.whole or lane.busy or lane.moving is not None for lane in self._all)
        if self._starting or self._waiting or any(usable):
            self._lacking_since = None
            return
        wait = self._settings.node_wait_seconds
        if self._lacking_since is None:
            self._lacking_since = time.monotonic()
            if wait:
                self._tell(f"Waiting up to {wait:g} s for a node to return or to join ...")
        if time.monotonic() - self._lacking_since >= wait:
            raise NodesLostError(
                f"A trial needs {len(self.cluster.nodes)} nodes, but too few are left; start nodes and resume."
            )


def _words(addresses: Sequence[str]) -> str:
    return f"Node{'s' * (len(addresses) > 1)} {', '.join(addresses)}"
