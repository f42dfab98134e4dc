"""The caller's end of training on worker processes that Ray has placed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy.typing as npt
import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from autosync.engine.core.prefetch import Reader, Spec
from autosync.errors import AutosyncError, ClusterError
from autosync.spec import Device, Strategy
from trials.cluster.node_matching import addresses_of
from trials.cluster.ray_labels import machines_of
from trials.trial import reason_of
from trials.workers.worker_set import WorkerDiedError, WorkerSet

if TYPE_CHECKING:
    from autosync.engine.core.step_state import StepState

LOOK_SECONDS = 2.0
"""Seconds between checks of the nodes during a step."""


@final
class RayTraining:
    """An `autosync.engine.core.contract.Runner` on a set of workers, which `close` ends.

    An error of a step is raised as a `ClusterError` that names the process or node that is gone, if there is one.
    """

    def __init__(self, workers: WorkerSet, captured: bytes, strategy: Strategy) -> None:
        """Send the model to the client and place it as `strategy` describes."""
        self._set = workers
        self._strategy = strategy
        workers.load(ray.put(captured))
        workers.check_room()
        workers.connect()
        self._answer(workers.client.open_training.remote(workers.cluster, strategy, workers.waits()))

    def on(self, batches: Sequence[Sequence[Any]], counted: Sequence[int]) -> float:
        return self._answer(self._set.client.train.remote("on", [list(batch) for batch in batches], list(counted)))

    def own(self) -> float:
        return self._answer(self._set.client.train.remote("own"))

    def several(self, count: int) -> list[float]:
        losses: list[float] = self._answer(self._set.client.train.remote("several", count))
        return losses

    def open_feed(self, read: Reader, specs: Sequence[Spec]) -> None:
        tasks = {str(device): task for task, device in enumerate(self._set.cluster.server_devices)}
        nodes = {node.name: node for node in self._set.cluster.nodes}
        replicas = self._strategy.replicas
        offers = []
        for shard, replica in enumerate(replicas):
            device = Device.parse(replica)
            task = tasks.get(replica, tasks[str(nodes[device.node].cpu_devices[0])])
            offers.append(self._set.workers[task].offer.remote(read, shard, len(replicas)))
        tokens = [self._answer(reference) for reference in offers]
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
        """Wait for the answer of the client or a worker, without a time limit as long as all nodes are alive."""
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
                if isinstance(cause, AutosyncError) and not isinstance(cause, ClusterError):
                    raise cause from None
                missing = self._left() or self._set.missing()
                if isinstance(cause, ClusterError):  # mostly a connection that a dead process has left
                    raise ClusterError(missing or str(cause)) from None
                raise ClusterError(_because(missing, reason_of(cause if cause else error))) from None

    def _left(self) -> str | None:
        """A sentence naming the nodes that have left the cluster, or None."""
        alive = machines_of(ray.nodes())
        left = [address for address in addresses_of(self._set.cluster) if address not in alive]
        return f"The cluster has lost {', '.join(left)}." if left else None


def _because(missing: str | None, reason: str) -> str:
    return f"{missing} ({reason})" if missing else f"A step failed: {reason}"
