"""The fleet: a lane for every group of nodes that can run a trial, kept whole while nodes leave and join."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import ray
from ray.exceptions import RayTaskError

from autosync.errors import AutosyncError, ClusterError, NodesLostError, TrialError
from autosync.spec import ClusterSpec, ModelSpec, Node, RuntimeRecord
from trials.cluster.ray_labels import machines_of
from trials.cluster.seats import addresses_of, alike, seated_like
from trials.fleet.lanes import RunOnLane
from trials.fleet.mending import Seated, mending
from trials.fleet.on_ray import Launch, RayBackend, RaySettings, RunByName
from trials.trial import TrialRequest, reason_of

LOOK_SECONDS = 1.0
"""Seconds between looks at the nodes while lanes are asked for."""


@dataclass(frozen=True)
class FleetSettings:
    """How trials run; how long to wait for nodes when every lane lacks some; which nodes may be used.

    `usable` are addresses: of all nodes, those to come included, when it is None.
    """

    trials: RaySettings = field(default_factory=RaySettings)
    node_wait_seconds: float = 600.0
    usable: frozenset[str] | None = None


@dataclass
class _Lane:
    """A lane. `goal` is where it is or will be seated; `moving` is the answer to come while it moves there."""

    backend: RayBackend
    goal: ClusterSpec
    busy: bool = False
    whole: bool = True
    moving: Any = None

    @classmethod
    def of(cls, backend: RayBackend) -> _Lane:
        return cls(backend, backend.cluster)


@final
class Fleet:
    """Lanes on disjoint nodes of the Ray cluster this process has joined. It is a `Backend` and offers `Lanes`.

    A lane beyond the first is probed, if lanes are, and must be like it. A node that leaves is replaced by a spare one
    like it; nodes that join, if they are enough, make a new lane. No lane is begun or moved while trials are timed on
    others, which its probe would disturb. Only the process that made the fleet may use it; `runner` may be sent around.
    """

    def __init__(
        self, model: str, groups: Sequence[ClusterSpec], settings: FleetSettings, tell: Callable[[str], None]
    ) -> None:
        """`groups` are disjoint parts of the cluster, all of as many nodes; `tell` gets a sentence when lanes change.

        Raises `ModelError` and `ClusterError` when the first lane cannot be made.
        """
        self._model_name = model
        self._settings = settings
        self._tell = tell
        first = RayBackend(Launch(model, groups[0], settings.trials))
        self.model: ModelSpec = first.model
        self.cluster: ClusterSpec = first.cluster
        self.notes = first.notes
        self.probing = first.probing
        """The report of the first lane's probe, as JSON; None when it was not probed."""
        self._lanes = {first.name: _Lane.of(first)}
        self._starting: tuple[ClusterSpec, Launch] | None = None
        self._waiting: list[ClusterSpec] = list(groups[1:])
        self._refused: set[str] = set()
        self._draining = False
        self._looked_at = 0.0
        self._lacking_since: float | None = None
        try:
            while self._starting or self._waiting:
                self._go_on_starting()
                time.sleep(0.05)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """The number of lanes on which trials can run now."""
        return sum(lane.whole for lane in self._lanes.values())

    @property
    def addresses(self) -> frozenset[str]:
        """Addresses of the nodes that trials run on, or will once lanes have moved."""
        return frozenset(address for lane in self._all for address in addresses_of(lane.goal))

    def take(self) -> str | None:
        """A lane for a trial that starts now, or None. Raises `NodesLostError` when waiting for nodes is over."""
        if time.monotonic() - self._looked_at > LOOK_SECONDS:
            self._look_after_nodes()
            self._looked_at = time.monotonic()
        if self._draining or self._starting or self._waiting or any(each.moving is not None for each in self._all):
            return None
        for name, lane in self._lanes.items():
            if lane.whole and not lane.busy:
                lane.busy = True
                return name
        return None

    def give_back(self, lane: str, failure: str = "") -> None:
        self._lanes[lane].busy = False
        self._looked_at = 0.0  # the trial may have been lost with a node
        if not failure:
            return
        addresses = addresses_of(self._lanes[lane].backend.cluster)
        self._drop(lane)
        self._refused |= set(addresses)
        if not self._lanes:
            raise TrialError(failure)
        self._tell(f"{_words(addresses)} will not be used any more: {failure}")

    def runner(self) -> RunOnLane:
        return RunByName(self.model.name)

    def run(self, request: TrialRequest) -> RuntimeRecord:
        """Run one trial on the first lane that is free, and wait for one while none is."""
        while True:
            while (lane := self.take()) is None:
                time.sleep(LOOK_SECONDS)
            try:
                record = self._lanes[lane].backend.run(request)
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
        self.cluster = seated_like(cluster, addresses_of(self.cluster))
        for lane in self._lanes.values():
            lane.backend.adopt(seated_like(cluster, addresses_of(lane.backend.cluster)))
            lane.goal = lane.backend.cluster

    def close(self) -> None:
        """End every process of every lane. A second call does no harm."""
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
        self._go_on_starting()
        self._mend(machines)
        self._check_for_lanes()

    def _mend(self, machines: Mapping[str, Node]) -> None:
        """Move lanes whose nodes have left, and begin new ones, once the trials under way are over."""
        starting = [self._starting[0]] if self._starting else []
        seated = [Seated(name, lane.goal, not lane.busy and lane.moving is None) for name, lane in self._lanes.items()]
        seated += [Seated("", group, idle=False) for group in (*starting, *self._waiting)]
        plan = mending(seated, self.cluster, machines, self._usable(machines))
        for each in seated:
            if each.idle:
                self._mark(self._lanes[each.lane], machines)
        self._draining = bool(plan.moves or plan.joins) and self._disturbs()
        if self._draining:
            return
        for name in plan.given_up:
            self._drop(name)
        for name, goal in list(plan.moves.items())[:1]:  # the next once this one is over
            self._move(self._lanes[name], goal)
        for group in plan.joins:
            self._tell(f"{_words(group)} joined: trials will run there too.")
            self._waiting.append(seated_like(self.cluster, group))

    def _usable(self, machines: Collection[str]) -> set[str]:
        allowed = self._settings.usable
        return {each for each in machines if each not in self._refused and (allowed is None or each in allowed)}

    def _disturbs(self) -> bool:
        """Whether a probe now would disturb a trial, or another probe."""
        return bool(self._starting) or any(lane.busy or lane.moving is not None for lane in self._all)

    def _mark(self, lane: _Lane, machines: Collection[str]) -> None:
        gone = [each for each in addresses_of(lane.backend.cluster) if each not in machines]
        if gone and lane.whole:
            self._tell(f"{_words(gone)} left the cluster.")
        lane.whole = not gone

    def _move(self, lane: _Lane, goal: ClusterSpec) -> None:
        here, there = addresses_of(lane.backend.cluster), addresses_of(goal)
        pairs = [(old, new) for old, new in zip(here, there, strict=True) if old != new]
        self._tell(" ".join(f"Node {new} will take the place of {old}." for old, new in pairs))
        lane.whole, lane.goal, lane.moving = False, goal, lane.backend.begin_move(there)

    def _settle(self, lane: _Lane, machines: Mapping[str, Node]) -> None:
        """Take up a lane whose move is over."""
        if lane.moving is None or not ray.wait([lane.moving], timeout=0)[0]:
            return
        before, there = addresses_of(lane.backend.cluster), addresses_of(lane.goal)
        why, lane.moving = lane.backend.end_move(lane.moving, lane.goal), None
        if why and all(each in machines for each in there):  # else it may be another node's fault
            new = [each for each in there if each not in before]
            self._refused |= set(new)
            self._tell(f"{_words(new)} cannot be used: {why}")
        lane.goal, lane.whole = lane.backend.cluster, not why

    def _drop(self, name: str) -> None:
        self._lanes.pop(name).backend.close()

    def _go_on_starting(self) -> None:
        """Take up the lane that has started, then begin the next: one after the other, lest probes share a link."""
        if self._starting and self._starting[1].is_over():
            group, launch = self._starting
            self._starting = None
            try:
                self._welcome(launch)
            except (AutosyncError, RayTaskError) as error:
                self._refused |= set(addresses_of(group))
                why = str(error) if isinstance(error, AutosyncError) else reason_of(error)
                self._tell(f"{_words(addresses_of(group))} cannot be used: {why}")
        if self._waiting and not self._disturbs():
            group = self._waiting.pop(0)
            captured = next((lane.backend.captured for lane in self._lanes.values()), None)
            self._starting = group, Launch(self._model_name, group, self._settings.trials, captured)

    def _welcome(self, launch: Launch) -> None:
        """Take up a new lane, if it is like the first. Raises `ClusterError`."""
        backend = RayBackend(launch)
        try:
            if different := alike(self.cluster, backend.cluster):
                raise ClusterError(f"Nodes on which trials run side by side must be alike, but there are {different}.")
            backend.adopt(seated_like(self.cluster, addresses_of(backend.cluster)))
        except BaseException:
            backend.close()
            raise
        self._lanes[backend.name] = _Lane.of(backend)

    def _check_for_lanes(self) -> None:
        """Raise `NodesLostError` when no lane is whole and none will be."""
        hopes = (each.whole or each.busy or each.moving is not None for each in self._all)
        if self._starting or self._waiting or any(hopes):
            self._lacking_since = None
            return
        wait = self._settings.node_wait_seconds
        if self._lacking_since is None:
            self._lacking_since = time.monotonic()
            if wait:
                self._tell(f"Waiting up to {wait:g} s for a node to come back or to join ...")
        if time.monotonic() - self._lacking_since >= wait:
            raise NodesLostError(
                f"A trial needs {len(self.cluster.nodes)} nodes, but too few are left; start some and go on."
            )


def _words(addresses: Sequence[str]) -> str:
    return f"Node{'s' * (len(addresses) > 1)} {', '.join(addresses)}"
