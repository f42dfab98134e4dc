"""The process that changes the rates of an emulated cluster's links at their times.

Times count from the moment the cluster is up, not from the first command on it. `status` can therefore tell the phase,
and a job submitted by the dashboard finds the same phases as a command. A change waits for a fault that is under way.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import trials
from autosync.spec import ClusterSpec
from trials.emulate.listed import cluster_mark
from trials.emulate.network import run_all, shaping_command
from trials.emulate.processes import outliving
from trials.emulate.state import CHANGER, State, lock_folder, read_state
from trials.emulate.wiring import Wiring
from trials.phases import read_begun, write_begun

PATIENCE_SECONDS = 600.0
"""Seconds that a change waits for another command, such as one that restarts a node."""


@contextmanager
def changing(state: State) -> Iterator[State]:
    """Yield the state with the process in it; the caller records the state in the block, and then the first phase
    starts.

    Until the end of the block, the process ends with this process, even if that is killed. Afterwards it lives on.
    """
    write_begun(state.phases_file, [time.time()])
    command = [sys.executable, "-m", "trials.emulate.changes", str(state.folder)]
    root = str(Path(trials.__file__).resolve().parents[1])
    env = {"PYTHONPATH": root, "PATH": os.environ.get("PATH", os.defpath), "TMPDIR": str(state.folder.parent)}
    env |= cluster_mark(state.folder)
    with (state.folder / "changes.log").open("wb") as log, outliving(command, env=env, stderr=log) as process:
        yield state.with_process(CHANGER, process)
        write_begun(state.phases_file, [time.time()])


def phase_of(state: State) -> int:
    """Return the number of the current phase of the cluster, from 0 on."""
    return len(read_begun(state.phases_file)) - 1 if state.cluster.changes else 0


def cluster_now(state: State) -> ClusterSpec:
    """Return the cluster with the current rates of its links."""
    return state.cluster.at(state.cluster.phase_starts[phase_of(state)])


def phase_lines(state: State) -> list[str]:
    """Return a line on the current phase, its start and the start of the next phase; empty if links do not change."""
    starts = state.cluster.phase_starts
    if len(starts) == 1:
        return []
    begun = read_begun(state.phases_file)
    number, age = len(begun) - 1, time.time() - begun[0]
    following = (
        f"phase {number + 1} begins {starts[number + 1]:g} s after, in {max(0.0, starts[number + 1] - age):.0f} s"
        if number + 1 < len(starts)
        else "it is the last"
    )
    return [
        f"Links change: phase {number} of 0 to {len(starts) - 1} began {begun[number] - begun[0]:.1f} s after the "
        f"cluster was up, {time.time() - begun[number]:.0f} s ago; {following}."
    ]


def main(folder: str) -> None:
    """Carry out the changes of the emulated cluster in `folder`, and then live on, as a sign that all is well."""
    if not sys.stdin.readline():
        return  # the process that was making the cluster is gone
    name = Path(folder).name.removeprefix("autosync-")
    state = read_state(name)
    if state is None:
        return
    begun = list(read_begun(state.phases_file))
    zero = time.monotonic() - (time.time() - begun[0])
    for before, after in pairwise(state.cluster.phase_starts):
        time.sleep(max(0.0, zero + after - time.monotonic()))
        with lock_folder(Path(folder), PATIENCE_SECONDS):
            state = read_state(name)  # a node may have joined
            if state is None:
                return
            run_all(_commands(name, state.cluster.at(before), state.cluster.at(after)))
            begun.append(time.time())
            write_begun(state.phases_file, begun)
    os.execvp("sleep", ["sleep", "infinity"])


def _commands(name: str, before: ClusterSpec, after: ClusterSpec) -> Iterator[list[str]]:
    """Yield the commands that change the rates of one cluster to those of the other, where they differ."""
    for old, new in zip(Wiring(name, before).veth_pairs, Wiring(name, after).veth_pairs, strict=True):
        for was, port in ((old.a, new.a), (old.b, new.b)):
            if port != was and (command := shaping_command(port)):
                yield command


if __name__ == "__main__":
    main(*sys.argv[1:])
