"""What a discipline costs and gains, each mechanism beside its bound: waiting, meeting, compressing, sharing out.

    python -m tests.by_hand.bench_disciplines
    python -m tests.by_hand.bench_disciplines --rounds 3 --steps 5

Four replicas in this process, so that links are its memory: what is seen is the mechanism's own cost. Passes are
paced, and gradients real and held; only compressing and what is marked real take as long as they take. All rows of a
part take turns; shown are medians of a step's milliseconds with the 95 % interval over rounds (the range, with under
six), and what the passes alone would take. Run it alone on the machine: a few minutes.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from autosync.baselines import BASELINES
from autosync.engine.loading import load_tensorflow
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
"""Rounds from which there is a 95 % interval."""


@dataclass(frozen=True)
class Row:
    """A step that takes turns with others of its part; `bound` is what its passes alone take, in seconds."""

    part: str
    name: str
    step: Any
    bound: float | None = None


def _paced(paces: Mapping[int, Pace]) -> ClusterSpec:
    cluster = star_cluster(REPLICAS)
    nodes = [
        replace(node, pace=paces.get(number, Pace(0.0, PASS, "held"))) for number, node in enumerate(cluster.nodes)
    ]
    return replace(cluster, nodes=tuple(nodes))


def _sessions(task: str) -> Callable[[ClusterSpec], Any]:
    from autosync.engine.capture.capturing import capture
    from autosync.engine.capture.profile import profiled
    from autosync.engine.placement import Placement
    from autosync.engine.step.realize import Session
    from autosync.engine.zoo import build_task

    captured = profiled(capture(build_task(task)))
    return lambda cluster: Session(captured, cluster, Placement.in_one_process(cluster))


def _on(session: Any, discipline: Discipline = PLAIN, way: str = "all_reduce_25mb") -> Any:
    strategy = BASELINES[way](session.model, session.cluster)
    return session.realize(replace(strategy, discipline=discipline))


def _waiting() -> list[Row]:
    of_task = _sessions("digits")
    slow = of_task(_paced({3: Pace(0.0, SLOW * PASS, "held")}))
    found = _on(of_task(star_cluster(REPLICAS)), Discipline(waits=CutOff(3)))
    found.step._pause = lambda replica, _: time.sleep(SLOW * PASS if replica == 3 else PASS)
    rows = [
        ("for all, plain", _on(slow), SLOW * PASS),
        ("for all, by a cut-off", _on(slow, Discipline(waits=CutOff(4))), SLOW * PASS),
        ("for three, the late stop", _on(slow, Discipline(waits=CutOff(3, "stop"))), PASS),
        ("for three, the late finish", _on(slow, Discipline(waits=CutOff(3))), PASS),
        ("for three, found out (real)", found, PASS),
    ]
    return [Row("waiting, one node three times slower", *each) for each in rows]


def _meeting() -> list[Row]:
    session = _sessions("digits")(_paced({}))
    rows = [
        ("plain", Discipline()),
        ("in every step, gradients", Discipline(Rhythm(1, averages="gradients"))),
        ("in every step, parameters", Discipline(Rhythm(1))),
        ("after every step, as a threshold of 0 decides", Discipline(Rhythm(threshold=0.0))),
        ("never", Discipline(Rhythm(10**6))),
    ]
    return [Row("meeting", name, _on(session, each), PASS) for name, each in rows]


def _compressing() -> list[Row]:
    session = _sessions("bert-mini")(star_cluster(REPLICAS))

    def kept(ratio: float, fidelity: Fidelity | None, indices: str) -> Any:
        variables = tuple(
            VariableStrategy(each.name, (AllReduce(0, compressor=None if each.sparse else TopK(ratio, indices)),))
            for each in session.model.variables
        )
        replicas = tuple(map(str, session.cluster.replica_devices))
        return session.realize(Strategy(replicas, variables, Discipline(fidelity=fidelity)))

    return [
        Row("compressing (real passes)", f"{indices}, {ratio:g}, {how}", kept(ratio, fidelity, indices))
        for indices in ("own", "star")
        for ratio in (0.1, 0.01)
        for how, fidelity in (("fixed", None), ("told at run time", Fidelity((0.1, ratio), 1)))
    ]


def _sharing_out() -> list[Row]:
    of_task = _sessions("digits")
    session = of_task(_paced({}))
    profile = session.model.pace_profile
    whole = profile.forward_seconds + profile.backward_seconds
    paces = {number: Pace(PASS / whole / speed, 0.0, "held") for number, speed in enumerate(SPEEDS)}
    unlike = of_task(_paced(paces))
    return [
        Row("sharing out, speeds 1, 0.5, 0.25, 0.25", "evenly", _on(unlike), PASS / min(SPEEDS)),
        Row(
            "sharing out, speeds 1, 0.5, 0.25, 0.25",
            "by speed",
            _on(unlike, Discipline(loads=Loads(SPEEDS))),
            PASS * REPLICAS / sum(SPEEDS),
        ),
    ]


PARTS: dict[str, Callable[[], list[Row]]] = {
    "waiting": _waiting,
    "meeting": _meeting,
    "compressing": _compressing,
    "sharing": _sharing_out,
}


def _timed(rows: list[Row], rounds: int, steps: int) -> list[list[float]]:
    """Median seconds of a step, by row and round."""
    found: list[list[float]] = [[] for _ in rows]
    for number in range(-1, rounds):
        for row, medians in zip(rows, found, strict=True):
            seconds = []
            for _ in range(max(steps, 3)):
                begin = time.perf_counter()
                row.step()
                seconds.append(time.perf_counter() - begin)
            if number >= 0:  # the first round builds the steps
                medians.append(statistics.median(seconds[1:]))  # a step after others' turns is not like those behind it
    for row in rows:
        row.step.close()
    return found


def _in_words(medians: list[float]) -> str:
    low, high = median_interval(medians) if len(medians) >= ENOUGH else (min(medians), max(medians))
    return f"{statistics.median(medians) * 1e3:.1f} [{low * 1e3:.1f}, {high * 1e3:.1f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    given = parser.parse_args()
    load_tensorflow()
    from autosync.engine.servers import use_logical_devices

    use_logical_devices(REPLICAS, REPLICAS)
    for part in given.parts:
        rows = PARTS[part]()
        print(f"\n{rows[0].part}\n\n| | step (ms) | the passes alone (ms) |\n|---|---|---|")
        for row, medians in zip(rows, _timed(rows, given.rounds, given.steps), strict=True):
            bound = "" if row.bound is None else f"{row.bound * 1e3:.0f}"
            print(f"| {row.name} | {_in_words(medians)} | {bound} |", flush=True)


if __name__ == "__main__":
    main()
