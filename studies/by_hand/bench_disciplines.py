"""The cost and the gain of disciplines, compared with bounds: cut-offs, local SGD, compression and dynamic batches.

    python -m studies.by_hand.bench_disciplines
    python -m studies.by_hand.bench_disciplines --rounds 3 --steps 5

Four replicas run in this process, so that links are its memory and the figures show the cost of the mechanism. Passes
are paced, with real gradients that are held until the release; only the compressing part and rows marked as real have
real durations. All rows of a part take turns. The output has medians of a step's milliseconds with the 95 % interval
over rounds (the range, with under six), and the time of the passes alone. Run the script alone on the machine; it takes
a few minutes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autosync.baselines import BASELINES
from autosync.engine.tensorflow.loading import load_tensorflow
from autosync.spec import (
    PLAIN,
    AllReduce,
    ClusterSpec,
    CutOff,
    Discipline,
    Fidelity,
    Loads,
    Pace,
    Rhythm,
    Strategy,
    TopK,
    VariableStrategy,
    median_interval,
)
from tests.cases import star_cluster

REPLICAS = 4
PASS = 0.1
SLOW = 3.0
SPEEDS = (1.0, 0.5, 0.25, 0.25)
ENOUGH = 6
"""Fewest rounds for a 95 % interval."""


@dataclass(frozen=True)
class TimedRow:
    """A step that takes turns with the other steps of its part; `bound` is the time of its passes alone, in seconds."""

    part: str
    name: str
    step: Any
    bound: float | None = None


def _paced_cluster(paces: Mapping[int, Pace]) -> ClusterSpec:
    cluster = star_cluster(REPLICAS)
    nodes = [
        replace(node, pace=paces.get(number, Pace(0.0, PASS, "held"))) for number, node in enumerate(cluster.nodes)
    ]
    return replace(cluster, nodes=tuple(nodes))


def _sessions(task: str) -> Callable[[ClusterSpec], Any]:
    from autosync.engine.tensorflow.capture.capturing import capture
    from autosync.engine.tensorflow.capture.profile import profile
    from autosync.engine.tensorflow.placement import Placement
    from autosync.engine.tensorflow.step.session import TensorFlowSession
    from autosync.zoo import build_task

    captured = profile(capture(build_task(task)))
    return lambda cluster: TensorFlowSession(captured, cluster, Placement.in_one_process(cluster))


def _on(session: Any, discipline: Discipline = PLAIN, way: str = "all_reduce_25mb") -> Any:
    strategy = BASELINES[way](session.model, session.cluster)
    return session.realize(replace(strategy, discipline=discipline))


def _waiting() -> list[TimedRow]:
    of_task = _sessions("digits")
    slow = of_task(_paced_cluster({3: Pace(0.0, SLOW * PASS, "held")}))
    measured = _on(of_task(star_cluster(REPLICAS)), Discipline(waits=CutOff(3)))
    measured.step._pause = lambda replica, _: time.sleep(SLOW * PASS if replica == 3 else PASS)
    rows = [
        ("for all, plain", _on(slow), SLOW * PASS),
        ("for all, by a cut-off", _on(slow, Discipline(waits=CutOff(4))), SLOW * PASS),
        ("for three, the late stop", _on(slow, Discipline(waits=CutOff(3, "stop"))), PASS),
        ("for three, the late finish", _on(slow, Discipline(waits=CutOff(3))), PASS),
        ("for three, found out (real)", measured, PASS),
    ]
    return [TimedRow("waiting, one node three times slower", *fields) for fields in rows]


def _meeting() -> list[TimedRow]:
    session = _sessions("digits")(_paced_cluster({}))
    rows = [
        ("plain", Discipline()),
        ("in every step, gradients", Discipline(Rhythm(1, averages="gradients"))),
        ("in every step, parameters", Discipline(Rhythm(1))),
        ("after every step, as a threshold of 0 decides", Discipline(Rhythm(threshold=0.0))),
        ("never", Discipline(Rhythm(10**6))),
    ]
    return [TimedRow("meeting", name, _on(session, discipline), PASS) for name, discipline in rows]


def _compressing() -> list[TimedRow]:
    session = _sessions("bert-mini")(star_cluster(REPLICAS))

    def kept(ratio: float, fidelity: Fidelity | None, indices: str) -> Any:
        variables = tuple(
            VariableStrategy(
                variable.name, (AllReduce(0, compressor=None if variable.sparse else TopK(ratio, indices)),)
            )
            for variable in session.model.variables
        )
        replicas = tuple(map(str, session.cluster.replica_devices))
        return session.realize(Strategy(replicas, variables, Discipline(fidelity=fidelity)))

    return [
        TimedRow("compressing (real passes)", f"{indices}, {ratio:g}, {how}", kept(ratio, fidelity, indices))
        for indices in ("own", "star")
        for ratio in (0.1, 0.01)
        for how, fidelity in (("fixed", None), ("told at run time", Fidelity((0.1, ratio), 1)))
    ]


def _sharing_out() -> list[TimedRow]:
    of_task = _sessions("digits")
    session = of_task(_paced_cluster({}))
    profile = session.model.pace_profile
    whole = profile.forward_seconds + profile.backward_seconds
    paces = {number: Pace(PASS / whole / speed, 0.0, "held") for number, speed in enumerate(SPEEDS)}
    unlike = of_task(_paced_cluster(paces))
    return [
        TimedRow("sharing out, speeds 1, 0.5, 0.25, 0.25", "evenly", _on(unlike), PASS / min(SPEEDS)),
        TimedRow(
            "sharing out, speeds 1, 0.5, 0.25, 0.25",
            "by speed",
            _on(unlike, Discipline(loads=Loads(SPEEDS))),
            PASS * REPLICAS / sum(SPEEDS),
        ),
    ]


PARTS: dict[str, Callable[[], list[TimedRow]]] = {
    "waiting": _waiting,
    "meeting": _meeting,
    "compressing": _compressing,
    "sharing": _sharing_out,
}


def _time_rows(rows: list[TimedRow], rounds: int, steps: int) -> list[list[float]]:
    """Return the median seconds of a step, by row and round."""
    seconds_of_rows: list[list[float]] = [[] for _ in rows]
    for number in range(-1, rounds):
        for row, medians in zip(rows, seconds_of_rows, strict=True):
            seconds = []
            for _ in range(max(steps, 3)):
                begin = time.perf_counter()
                row.step()
                seconds.append(time.perf_counter() - begin)
            if number >= 0:  # the first round builds the steps
                medians.append(statistics.median(seconds[1:]))  # the first step after other rows' turns is not typical
    for row in rows:
        row.step.close()
    return seconds_of_rows


def _in_words(medians: list[float]) -> str:
    low, high = median_interval(medians) if len(medians) >= ENOUGH else (min(medians), max(medians))
    return f"{statistics.median(medians) * 1e3:.1f} [{low * 1e3:.1f}, {high * 1e3:.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    options = parser.parse_args()
    load_tensorflow()
    from autosync.engine.tensorflow.servers import use_logical_devices

    use_logical_devices(REPLICAS, REPLICAS)
    for part in options.parts:
        rows = PARTS[part]()
        print(f"\n{rows[0].part}\n\n| | step (ms) | the passes alone (ms) |\n|---|---|---|")
        for row, medians in zip(rows, _time_rows(rows, options.rounds, options.steps), strict=True):
            bound = "" if row.bound is None else f"{row.bound * 1e3:.0f}"
            print(f"| {row.name} | {_in_words(medians)} | {bound} |", flush=True)


if __name__ == "__main__":
    main()
