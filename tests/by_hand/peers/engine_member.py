"""autosync's own processes: servers, and clients that drive them or the devices of their own process.

python -m tests.by_hand.peers.engine_member serve | client
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
from tests.by_hand.peers.answering import Question, answer, own_bytes, timed_steps
from tests.by_hand.peers.tasks import task_of
from trials.paced import PacedRunning
from trials.trial import reason_of


@final
class Client:
    """Drives the servers: one model at a time and one strategy at a time in each session, which questions name."""

    def __init__(self) -> None:
        self._cluster: ClusterSpec | None = None
        self._placement: Any = None
        self._captured: dict[str, Any] = {}
        self._profiled: dict[str, Any] = {}
        self._sessions: dict[str, Any] = {}
        self._steps: dict[str, Any] = {}
        self._connection: Question = {}

    def connect(self, question: Question) -> None:
        from autosync.engine.placement import Placement
        from autosync.engine.servers import connect

        _pin(question)
        connect(question["addresses"], question["host"], again=bool(self._connection))
        self._connection = question
        self._cluster = ClusterSpec.from_json(question["cluster"])
        self._placement = Placement.on_workers(self._cluster)

    def connect_anew(self, question: Question) -> None:
        """Let go of all that belongs to the connection, and load `task` again on a new one."""
        for step in self._steps.values():
            step.close()
        self._sessions, self._steps = {}, {}
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
        """Capture a task (once) and give it a session; the model's spec, and how long each took.

        With a `paced` cluster the session is on that one, and the model is profiled (once).
        """
        from autosync.engine.capture.capturing import capture
        from autosync.engine.capture.profile import profiled
        from autosync.engine.step.pace import Waits
        from autosync.engine.step.realize import Session

        name, session, begin = question["task"], question.get("session", ""), time.perf_counter()
        if name not in self._captured:
            self._captured[name] = capture(task_of(name))
        assert self._cluster is not None, "connect, or devices, comes first"
        cluster, waits = self._cluster, None
        if "paced" in question:
            cluster = ClusterSpec.from_json(question["paced"])
            waits = {device: Waits(**each) for device, each in question["waits"].items()}
            if name not in self._profiled:
                self._profiled[name] = profiled(self._captured[name])
        captured = time.perf_counter()
        self._forget(session)
        self._sessions.pop(session, None)
        gc.collect()
        model = self._profiled.get(name, self._captured[name])
        self._sessions[session] = Session(model, cluster, self._placement, waits)
        gc.freeze()
        return {
            "spec": self._sessions[session].model.to_json(),
            "capture_seconds": captured - begin,
            "open_seconds": time.perf_counter() - captured,
        }

    def passes(self, _: Question) -> float:
        """Core-seconds of one replica's forward and backward pass."""
        from autosync.engine.capture.profile import profile_step

        profile = profile_step(self._sessions[""].captured)
        return profile.forward_seconds + profile.backward_seconds

    def realize(self, question: Question) -> dict[str, Any]:
        """Place a strategy and run its first step, which traces it; or why that cannot be done."""
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
        except Exception as error:  # whatever the engine or TensorFlow says of a strategy is told to who asked
            return {"fault": reason_of(error)}
        place, first = (late - early for early, late in pairwise(times))
        return {"place_seconds": place, "first_seconds": first}

    def _forget(self, session: str) -> None:
        step = self._steps.pop(session, None)
        if step is not None:
            step.close()

    def forget(self, question: Question) -> None:
        """Let go of what was realized last in a session, and of what the workers hold of it."""
        self._forget(question.get("session", ""))
        gc.collect()

    def run(self, question: Question) -> dict[str, Any]:
        """Step seconds; of a paced step also what passes were to take, how late releases were, and the first's number.

        These are lists: (steps, replicas) and (steps, replicas, releases).
        """
        step = self._steps[question.get("session", "")]
        said = timed_steps(step, question)
        if isinstance(step, PacedRunning) and question["steps"]:
            taken = step.taken[-question["steps"] :]
            said["pass_seconds"] = [each.seconds.tolist() for each in taken]
            said["late_seconds"] = [each.late.tolist() for each in taken]
            said["first_step"] = len(step.taken) - len(taken)
        return said

    def settle(self, _: Question) -> None:
        """Wait until nothing of the strategy is under way, as steps of a stale one are between calls."""
        self._steps[""].settle()

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
                self._steps[""]()
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

        _pin(question)
        held["server"], address = start_server(
            question["host"], question.get("cores"), question.get("paced_replicas", 0)
        )
        return {"address": address}

    def waits(_: Question) -> dict[str, str]:
        """The tokens of the waits that passes are paced by."""
        from autosync.engine.step.pace import offered_waits

        return asdict(offered_waits())

    def profile(question: Question) -> None:
        """Let TensorFlow's profiler listen at `port`."""
        import tensorflow as tf

        tf.profiler.experimental.server.start(question["port"])

    answer({"start": start, "waits": waits, "profile": profile, "memory": _memory})


def _pin(question: Question) -> None:
    """Keep this process on the processor `cpu`, if one is named, before any thread has begun."""
    if question.get("cpu") is not None:
        os.sched_setaffinity(0, {question["cpu"]})


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
            "forget": client.forget,
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
