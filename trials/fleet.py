"""The fleet: a lane for every group of nodes that can run a trial, kept whole while nodes leave and join."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import ray

from autosync.errors import AutosyncError, ClusterError, NodesLostError
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord
from trials.backends.ray_actors import Launch, RayBackend, RaySettings, RunByName
from trials.lanes import RunOnLane
from trials.request import TrialRequest
from trials.seats import Machine, addresses_of, alike, machines_of, reseated, seated_like, seats

__all__ = ["ON_NODE_LOSS", "Fleet", "FleetSettings"]

ON_NODE_LOSS = ("wait", "shrink")

LOOK_SECONDS = 1.0
"""How often nodes are looked after while lanes are asked for."""


@dataclass(frozen=True)
class FleetSettings:
    """What to do when nodes are lacking for every lane: `wait` so many seconds for one to come, or `shrink` at once."""

    trials: RaySettings = field(default_factory=RaySettings)
    on_node_loss: str = "wait"
    node_wait_seconds: float = 600.0


@dataclass
class _Lane:
    """`goal` is where it is or will be seated; `moving` is the answer to come while it moves there."""

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

    Lanes beyond the first must prove to be like it. A node that leaves is replaced by a spare one like it; nodes that
    join, if they are enough, make a new lane. Only the process that made it may use it; `runner` may be sent to others.
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
        """Report of the first lane's probe, as JSON; None when it was not probed."""
        self._lanes = {first.name: _Lane.of(first)}
        self._captured: Any = None
        self._starting: list[tuple[ClusterSpec, Launch]] = []
        self._refused: set[str] = set()
        self._looked_at = 0.0
        self._lacking_since: float | None = None
        try:
            for group in groups[1:]:
                self._start(group)
            while self._starting:
                self._take_up_started()
                time.sleep(0.05)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._lanes)

    def take(self) -> str | None:
        """A lane for a trial that starts now, or None. Raises `NodesLostError` when waiting for nodes is over."""
        if time.monotonic() - self._looked_at > LOOK_SECONDS:
            self._look_after_nodes()
            self._looked_at = time.monotonic()
        for name, lane in self._lanes.items():
            if lane.whole and not lane.busy:
                lane.busy = True
                return name
        return None

    def give_back(self, lane: str) -> None:
        self._lanes[lane].busy = False
        self._looked_at = 0.0  # the trial may have been lost with a node

    def runner(self) -> RunOnLane:
        return RunByName(self.model.name)

    def run(self, request: TrialRequest) -> RuntimeRecord:
        """One trial on the first lane that is free; while none is, this waits."""
        while (lane := self.take()) is None:
            time.sleep(LOOK_SECONDS)
        try:
            return self._lanes[lane].backend.run(request)
        finally:
            self.give_back(lane)

    def adopt(self, cluster: ClusterSpec) -> None:
        """Let records of all lanes name the figures of `cluster`, with their own addresses."""
        self.cluster = seated_like(cluster, addresses_of(self.cluster))
        for lane in self._lanes.values():
            lane.backend.adopt(seated_like(cluster, addresses_of(lane.backend.cluster)))
            lane.goal = lane.backend.cluster

    def close(self) -> None:
        """End every process of every lane. Twice is fine."""
        for _, launch in self._starting:
            launch.close()
        self._starting.clear()
        for lane in self._lanes.values():
            lane.backend.close()

    def _look_after_nodes(self) -> None:
        machines = machines_of(ray.nodes())
        self._refused &= machines.keys()
        self._take_up_started()
        spare = self._spare(machines)
        for lane in self._lanes.values():
            if lane.moving is not None:
                self._settle(lane)
            elif not lane.busy:
                self._mend(lane, machines, spare)
        while group := seats(self.cluster, machines, spare):
            spare = [each for each in spare if each not in group]
            self._start(seated_like(self.cluster, group))
            self._tell(f"{_words(group)} joined: trials will run there too.")
        self._check_for_lanes()

    def _spare(self, machines: Mapping[str, Machine]) -> list[str]:
        """Living addresses that no lane has."""
        seated = {address for lane in self._lanes.values() for address in addresses_of(lane.goal)}
        seated |= {address for group, _ in self._starting for address in addresses_of(group)}
        return [each for each in machines if each not in seated | self._refused]

    def _mend(self, lane: _Lane, machines: Mapping[str, Machine], spare: list[str]) -> None:
        """Put spare nodes in the place of those that left, or take the lane out of use until there are some."""
        here = addresses_of(lane.backend.cluster)
        gone = [each for each in here if each not in machines]
        if not gone:
            lane.whole = True
            return
        goal = reseated(lane.backend.cluster, machines, spare)
        if lane.whole:
            self._tell(f"{_words(gone)} left the cluster.")
        lane.whole = False
        if goal is None:
            return
        new = [each for each in addresses_of(goal) if each not in here]
        spare[:] = [each for each in spare if each not in new]
        self._tell(f"{_words(new)} will take the place of {', '.join(gone)}.")
        lane.goal, lane.moving = goal, lane.backend.begin_move(addresses_of(goal))

    def _settle(self, lane: _Lane) -> None:
        """Take up a lane whose move is over."""
        if not ray.wait([lane.moving], timeout=0)[0]:
            return
        before, why = addresses_of(lane.backend.cluster), lane.backend.end_move(lane.moving, lane.goal)
        lane.moving = None
        if why:
            new = [each for each in addresses_of(lane.goal) if each not in before]
            self._refused |= set(new)
            self._tell(f"{_words(new)} cannot be used: {why}")
        lane.goal, lane.whole = lane.backend.cluster, not why

    def _start(self, group: ClusterSpec) -> None:
        if self._captured is None:
            self._captured = ray.put(next(iter(self._lanes.values())).backend.captured())
        self._starting.append((group, Launch(self._model_name, group, self._settings.trials, self._captured)))

    def _take_up_started(self) -> None:
        for group, launch in [each for each in self._starting if each[1].is_over()]:
            self._starting.remove((group, launch))
            try:
                self._welcome(RayBackend(launch))
            except AutosyncError as error:
                self._refused |= set(addresses_of(group))
                self._tell(f"{_words(addresses_of(group))} cannot be used: {error}")

    def _welcome(self, backend: RayBackend) -> None:
        """A new lane, if it is like the first. Raises `ClusterError`."""
        if different := alike(self.cluster, backend.cluster):
            backend.close()
            raise ClusterError(f"Nodes on which trials run side by side must be alike, but there are {different}.")
        backend.adopt(seated_like(self.cluster, addresses_of(backend.cluster)))
        self._lanes[backend.name] = _Lane.of(backend)

    def _check_for_lanes(self) -> None:
        """Raise `NodesLostError` when no lane is whole and none will be."""
        lanes = self._lanes.values()
        if self._starting or any(lane.whole or lane.busy or lane.moving is not None for lane in lanes):
            self._lacking_since = None
            return
        wait = self._settings.node_wait_seconds if self._settings.on_node_loss == "wait" else 0.0
        if self._lacking_since is None:
            self._lacking_since = time.monotonic()
            if wait:
                self._tell(f"Waiting up to {wait:g} s for a node to come back or to join ...")
        if time.monotonic() - self._lacking_since >= wait:
            raise NodesLostError(
                f"A trial needs {len(self.cluster.nodes)} nodes, but too few are left; start some, and add --resume "
                "to go on."
            )


def _words(addresses: Sequence[str]) -> str:
    return f"Node{'s' * (len(addresses) > 1)} {', '.join(addresses)}"
