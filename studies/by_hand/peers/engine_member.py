"""autosync's processes: servers, and clients that drive the servers or the devices of their own process.

python -m studies.by_hand.peers.engine_member serve | client
"""

from __future__ import annotations

import gc
import os
import sys
import time
from dataclasses import asdict
from itertools import pairwise
from typing import Any, final

from autosync.spec import ClusterSpec, Strategy
from studies.by_hand.peers.answering import Question, answer, time_steps, written_bytes
from studies.by_hand.peers.tasks import task_of
from trials.paced import PacedRunning
from trials.trial import reason_of


@final
class EngineClient:
    """Drives the servers. A session, which questions name, has one model and one strategy at a time."""

    def __init__(self) -> None:
        self._cluster: ClusterSpec | None = None
        self._placement: Any = None
        self._captured: dict[str, Any] = {}
        self._profiled: dict[str, Any] = {}
        self._sessions: dict[str, Any] = {}
        self._steps: dict[str, Any] = {}
        self._connection: Question = {}

    def connect(self, question: Question) -> None:
        from autosync.engine.tensorflow.placement import Placement
        from autosync.engine.tensorflow.servers import connect

        _pin(question)
        connect(question["addresses"], question["host"], again=bool(self._connection))
        self._connection = question
        self._cluster = ClusterSpec.from_json(question["cluster"])
        self._placement = Placement.on_workers(self._cluster)

    def reconnect(self, question: Question) -> None:
        """Release all objects of the connection, and load `task` again on a new connection."""
        for step in self._steps.values():
            step.close()
        self._sessions, self._steps = {}, {}
        gc.unfreeze()
        gc.collect()
        self.connect(self._connection)
        self.load(question)

    def devices(self, question: Question) -> dict[str, Any]:
        """Make this process the whole cluster, with `workers` logical devices."""
        from autosync.engine.tensorflow.placement import Placement
        from autosync.engine.tensorflow.servers import use_logical_devices
        from trials.cluster.discovery import local_cluster

        use_logical_devices(question["workers"])
        self._cluster = local_cluster(question["workers"])
        self._placement = Placement.in_one_process(self._cluster)
        return self._cluster.to_json()

    def load(self, question: Question) -> dict[str, Any]:
        """Capture a task (once) and open a session for it; return the model's spec, and the seconds of both.

        With a `paced` cluster, the session is on that cluster, and the model is profiled (once).
        """
        from autosync.engine.core.pacing import Waits
        from autosync.engine.tensorflow.capture.capturing import capture
        from autosync.engine.tensorflow.capture.profile import profile
        from autosync.engine.tensorflow.step.session import TensorFlowSession

        name, session, begin = question["task"], question.get("session", ""), time.perf_counter()
        if name not in self._captured:
            self._captured[name] = capture(task_of(name))
        assert self._cluster is not None, "connect or devices must be called first"
        cluster, waits = self._cluster, None
        if "paced" in question:
            cluster = ClusterSpec.from_json(question["paced"])
            waits = {device: Waits(**tokens) for device, tokens in question["waits"].items()}
            if name not in self._profiled:
                self._profiled[name] = profile(self._captured[name])
        captured = time.perf_counter()
        self._forget(session)
        self._sessions.pop(session, None)
        gc.collect()
        model = self._profiled.get(name, self._captured[name])
        self._sessions[session] = TensorFlowSession(model, cluster, self._placement, waits)
        gc.freeze()
        return {
            "spec": self._sessions[session].model.to_json(),
            "capture_seconds": captured - begin,
            "open_seconds": time.perf_counter() - captured,
        }

    def passes(self, _: Question) -> float:
        """Return the core-seconds of one replica's forward and backward pass."""
        from autosync.engine.tensorflow.capture.profile import profile_step

        profile = profile_step(self._sessions[""].captured)
        return profile.forward_seconds + profile.backward_seconds

    def realize(self, question: Question) -> dict[str, Any]:
        """Place a strategy and run its first step, which traces it; return the seconds, or the reason of a failure."""
        strategy, session = Strategy.from_json(question["strategy"]), question.get("session", "")
        self._forget(session)
        gc.collect()
        times = [time.perf_counter()]
        try:
            step = self._steps[session] = self._sessions[session].realize(strategy)
            if isinstance(step, PacedRunning):
                step.seed = question.get("seed", 0)
            times.append(time.perf_counter())
            step()
            times.append(time.perf_counter())
        except Exception as error:  # any error of the engine or TensorFlow is reported to the asking side
            return {"fault": reason_of(error)}
        place, first = (late - early for early, late in pairwise(times))
        return {"place_seconds": place, "first_seconds": first}

    def _forget(self, session: str) -> None:
        step = self._steps.pop(session, None)
        if step is not None:
            step.close()

    def forget(self, question: Question) -> None:
        """Release the strategy realized last in a session, including its variables on the workers."""
        self._forget(question.get("session", ""))
        gc.collect()

    def run(self, question: Question) -> dict[str, Any]:
        """Run steps and return their seconds.

        For paced steps, also return the requested pass seconds (steps, replicas), the lateness of releases (steps,
        replicas, releases) and the number of the first step.
        """
        step = self._steps[question.get("session", "")]
        reply = time_steps(step, question)
        if isinstance(step, PacedRunning) and step.taken and question["steps"]:  # an unpaced step has none
            taken = step.taken[-question["steps"] :]
            reply["pass_seconds"] = [step_taken.seconds.tolist() for step_taken in taken]
            reply["late_seconds"] = [step_taken.late.tolist() for step_taken in taken]
            reply["first_step"] = len(step.taken) - len(taken)
        return reply

    def settle(self, _: Question) -> None:
        """Wait until no step of the strategy is running; steps of a stale strategy run between calls."""
        self._steps[""].settle()

    def trace(self, question: Question) -> dict[str, Any]:
        """Run `steps` steps while every server at `profilers` is traced.

        Returns the `Operation`s of each server, and the start and end of each step in ns since 1970.
        """
        from studies.by_hand.peers.tracing import trace_servers

        steps: list[tuple[int, int]] = []

        def run() -> None:
            steps.clear()
            for _ in range(question["steps"]):
                begin = time.time_ns()
                self._steps[""]()
                steps.append((begin, time.time_ns()))

        return {"operations": trace_servers(run, question["profilers"], question["folder"]), "steps": steps}

    def flows(self, question: Question) -> dict[str, Any]:
        """Time calls that send `bytes` between all pairs of devices at once, over the engine's transport."""
        from autosync.engine.tensorflow.transfer import Transfers

        pairs = [(source, target) for source, target in question["pairs"]]
        send = Transfers(self._placement).flows(pairs)
        sizes = [question["bytes"]] * len(pairs)
        return {"seconds": [send(sizes) for _ in range(1 + question["calls"])][1:]}


def _serve() -> None:
    alive: dict[str, Any] = {}  # keeps the server from being collected

    def start(question: Question) -> dict[str, str]:
        from autosync.engine.tensorflow.servers import start_server

        _pin(question)
        alive["server"], address = start_server(
            question["host"], question.get("cores"), question.get("paced_replicas", 0)
        )
        return {"address": address}

    def waits(_: Question) -> dict[str, str]:
        """Return the tokens of the waits that pace passes."""
        from autosync.engine.tensorflow.step.pace import offer_waits

        return asdict(offer_waits())

    def profile(question: Question) -> None:
        """Start TensorFlow's profiler at `port`."""
        import tensorflow as tf

        tf.profiler.experimental.server.start(question["port"])

    answer({"start": start, "waits": waits, "profile": profile, "memory": _memory})


def _pin(question: Question) -> None:
    """Pin this process to the processor `cpu`, if given, before any thread starts."""
    if question.get("cpu") is not None:
        os.sched_setaffinity(0, {question["cpu"]})


def _client() -> None:
    client = EngineClient()
    answer(
        {
            "connect": client.connect,
            "reconnect": client.reconnect,
            "devices": client.devices,
            "load": client.load,
            "passes": client.passes,
            "realize": client.realize,
            "forget": client.forget,
            "run": client.run,
            "settle": client.settle,
            "trace": client.trace,
            "flows": client.flows,
            "memory": _memory,
        }
    )


def _memory(_: Question) -> int:
    return written_bytes()


if __name__ == "__main__":
    {"serve": _serve, "client": _client}[sys.argv[1]]()
