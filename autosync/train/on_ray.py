"""Training on worker processes that Ray has placed: the caller's end of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy.typing as npt
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from autosync.engine.training.reading_ahead import Reader, Spec
from autosync.errors import AutosyncError, ClusterError
from autosync.spec import Device, Strategy
from trials.cluster.ray_labels import machines_of
from trials.cluster.seats import addresses_of
from trials.trial import reason_of
from trials.workers.worker_set import WorkerDiedError, WorkerSet

if TYPE_CHECKING:
    from autosync.engine.step.step_state import StepState

LOOK_SECONDS = 2.0
"""Seconds between looks at the nodes during a step."""


@final
class RayTraining:
    """A `autosync.engine.training.training.Runner` on a set of workers, which it ends when it is closed.

    What a step fails with is a `ClusterError` that names the process or node that is gone, if one is.
    """

    def __init__(self, workers: WorkerSet, captured: bytes, strategy: Strategy) -> None:
        """Give the model to the client and place it as `strategy` says."""
        self._set = workers
        self._strategy = strategy
        workers.load(ray.put(captured))
        workers.check_room()
        workers.connect()
        self._answer(workers.client.open_training.remote(workers.cluster, strategy, workers.waits()))

    def on(self, batches: Sequence[Sequence[Any]], counted: Sequence[int]) -> float:
        return self._answer(self._set.client.train.remote("on", [list(each) for each in batches], list(counted)))

    def own(self) -> float:
        return self._answer(self._set.client.train.remote("own"))

    def open_feed(self, read: Reader, specs: Sequence[Spec]) -> None:
        tasks = {str(device): task for task, device in enumerate(self._set.cluster.server_devices)}
        nodes = {node.name: node for node in self._set.cluster.nodes}
        replicas = self._strategy.replicas
        begun = []
        for shard, replica in enumerate(replicas):
            device = Device.parse(replica)
            task = tasks.get(replica, tasks[str(nodes[device.node].cpu_devices[0])])
            begun.append(self._set.workers[task].offer.remote(read, shard, len(replicas)))
        tokens = [self._answer(each) for each in begun]
        self._answer(self._set.client.train.remote("feed_from", tokens, list(specs)))

    def read(self) -> int:
        return self._answer(self._set.client.train.remote("read"))

    def on_read(self) -> float:
        return self._answer(self._set.client.train.remote("on_read"))

    def take_metrics(self) -> tuple[npt.NDArray[Any], ...]:
        return self._answer(self._set.client.train.remote("take_metrics"))

    def state(self) -> StepState:
        return self._answer(self._set.client.train.remote("state"))

    def load(self, state: StepState) -> None:
        self._answer(self._set.client.train.remote("load", state))

    def pids(self) -> dict[str, int]:
        return self._set.pids()

    def close(self) -> None:
        self._set.close()

    def _answer(self, reference: Any) -> Any:
        """What the client or a worker answers, however long that takes, as long as all nodes are there."""
        while True:
            try:
                return self._set.answer(reference, LOOK_SECONDS)
            except GetTimeoutError:
                if left := self._left():
                    raise ClusterError(left) from None
            except WorkerDiedError as died:
                raise ClusterError(self._left() or str(died)) from None
            except RayActorError:
                raise ClusterError(self._left() or self._set.missing() or "A process has died.") from None
            except RayTaskError as error:
                cause = error.cause
                if isinstance(cause, AutosyncError):
                    raise cause from None
                missing = self._left() or self._set.missing()
                raise ClusterError(_because(missing, reason_of(cause if cause else error))) from None

    def _left(self) -> str | None:
        """A sentence naming nodes that have left the cluster, or None."""
        alive = machines_of(ray.nodes())
        left = [address for address in addresses_of(self._set.cluster) if address not in alive]
        return f"The cluster has lost {', '.join(left)}." if left else None


def _because(missing: str | None, reason: str) -> str:
    return f"{missing} ({reason})" if missing else f"A step failed: {reason}"
