"""autosync's own processes: servers, and clients that drive them or the devices of their own process.

python -m tests.by_hand.peers.engine_member serve | client
"""

from __future__ import annotations

import gc
import sys
import time
from itertools import pairwise
from typing import Any, final

from autosync.spec import ClusterSpec, Strategy
from tests.by_hand.peers.answering import Question, answer, own_bytes, timed_steps
from tests.by_hand.peers.tasks import task_of
from trials.trial import reason_of


@final
class Client:
    """Drives the servers: one model at a time, one strategy at a time."""

    def __init__(self) -> None:
        self._cluster: ClusterSpec | None = None
        self._placement: Any = None
        self._captured: dict[str, Any] = {}
        self._session: Any = None
        self._step: Any = None
        self._connection: Question = {}

    def connect(self, question: Question) -> None:
        from autosync.engine.placement import Placement
        from autosync.engine.servers import connect

        connect(question["addresses"], question["host"], again=bool(self._connection))
        self._connection = question
        self._cluster = ClusterSpec.from_json(question["cluster"])
        self._placement = Placement.on_workers(self._cluster)

    def connect_anew(self, question: Question) -> None:
        """Let go of all that belongs to the connection, and load `task` again on a new one."""
        if self._step is not None:
            self._step.close()
        self._session = self._step = None
        gc.unfreeze()
        gc.collect()
        self.connect(self._connection)
        self.load(question)

    def devices(self, question: Question) -> dict[str, Any]:
        """Be the whole cluster: `workers` logical devices of this process."""
        from autosync.engine.placement import Placement
        from autosync.engine.servers import use_logical_devices
        from trials.cluster.discovery import local_cluster

        use_logical_devices(question["workers"])
        self._cluster = local_cluster(question["workers"])
        self._placement = Placement.in_one_process(self._cluster)
        return self._cluster.to_json()

    def load(self, question: Question) -> dict[str, Any]:
        """Capture a task (once) and give it a session; the model's spec, and how long each took."""
        from autosync.engine.capture.capturing import capture
        from autosync.engine.step.realize import Session

        name, begin = question["task"], time.perf_counter()
        if name not in self._captured:
            self._captured[name] = capture(task_of(name))
        captured = time.perf_counter()
        self._session = self._step = None
        gc.collect()
        self._session = Session(self._captured[name], self._cluster, self._placement)
        gc.freeze()
        return {
            "spec": self._session.model.to_json(),
            "capture_seconds": captured - begin,
            "open_seconds": time.perf_counter() - captured,
        }

    def passes(self, _: Question) -> float:
        """Core-seconds of one replica's forward and backward pass."""
        from autosync.engine.capture.profile import profile_step

        profile = profile_step(self._session.captured)
        return profile.forward_seconds + profile.backward_seconds

    def realize(self, question: Question) -> dict[str, Any]:
        """Place a strategy and run its first step, which traces it; or why that cannot be done."""
        strategy = Strategy.from_json(question["strategy"])
        if self._step is not None:
            self._step.close()
        self._step = None
        gc.collect()
        times = [time.perf_counter()]
        try:
            self._step = self._session.realize(strategy)
            times.append(time.perf_counter())
            self._step()
            times.append(time.perf_counter())
        except Exception as error:  # whatever the engine or TensorFlow says of a strategy is told to who asked
            return {"fault": reason_of(error)}
        place, first = (late - early for early, late in pairwise(times))
        return {"place_seconds": place, "first_seconds": first}

    def run(self, question: Question) -> dict[str, Any]:
        return timed_steps(self._step, question)

    def settle(self, _: Question) -> None:
        """Wait until nothing of the strategy is under way, as steps of a stale one are between calls."""
        self._step.settle()

    def trace(self, question: Question) -> dict[str, Any]:
        """Run `steps` steps while every server at `profilers` is traced.

        Of each server its operations, as `Operation`s; and when each step began and ended, in ns since 1970.
        """
        from tests.by_hand.peers.tracing import traced

        steps: list[tuple[int, int]] = []

        def run() -> None:
            steps.clear()
            for _ in range(question["steps"]):
                begin = time.time_ns()
                self._step()
                steps.append((begin, time.time_ns()))

        return {"operations": traced(run, question["profilers"], question["folder"]), "steps": steps}

    def flows(self, question: Question) -> dict[str, Any]:
        """Seconds of calls that send `bytes` along every pair of devices at once, over the engine's transport."""
        from autosync.engine.transfer import Transfers

        pairs = [(source, target) for source, target in question["pairs"]]
        send = Transfers(self._placement).flows(pairs)
        sizes = [question["bytes"]] * len(pairs)
        return {"seconds": [send(sizes) for _ in range(1 + question["calls"])][1:]}


def _serve() -> None:
    held: dict[str, Any] = {}

    def start(question: Question) -> dict[str, str]:
        from autosync.engine.servers import start_server

        held["server"], address = start_server(question["host"])
        return {"address": address}

    def profile(question: Question) -> None:
        """Let TensorFlow's profiler listen at `port`."""
        import tensorflow as tf

        tf.profiler.experimental.server.start(question["port"])

    answer({"start": start, "profile": profile, "memory": _memory})


def _client() -> None:
    client = Client()
    answer(
        {
            "connect": client.connect,
            "connect_anew": client.connect_anew,
            "devices": client.devices,
            "load": client.load,
            "passes": client.passes,
            "realize": client.realize,
            "run": client.run,
            "settle": client.settle,
            "trace": client.trace,
            "flows": client.flows,
            "memory": _memory,
        }
    )


def _memory(_: Question) -> int:
    return own_bytes()


if __name__ == "__main__":
    {"serve": _serve, "client": _client}[sys.argv[1]]()
