"""Communication alone: compares all-reduce, parameter servers and sparse tables with the capacity of the links.

    python -m studies.by_hand.bench_collectives over 4x200mbit topologies/three_racks.yaml --out collectives.json
    python -m studies.by_hand.bench_collectives show collectives.json
    python -m studies.by_hand.bench_collectives table collectives.json

Needs torch. A step is a training step, through the engine, of a model with almost no compute: one variable whose
gradient is a repeated number, or one table whose rows are looked up. The step's time therefore includes the call, the
update and the return of the loss. A server sends values back in the step that updates them, while other gradients still
arrive, so that both directions of a link can be busy at once, as in the ideal. For a table, rows are pulled while
gradients, which wait for no value here, are pushed. The all-reduces of gloo and of the mirrored strategy are timed
alone, without these parts. Contenders run in turns (A/B/C/A/B/C...); figures are medians with the 95 % interval over
turns (the range, with under six).

The bound is the lower bound of any all-reduce on these links (`all_reduce_bound_seconds`). The ideal is the time of the
busiest link for the bytes of a way. Both use the configured rates of the links times the share of them that plain TCP
reached in simultaneous flows from each node to the next, timed before and after. TensorFlow's transport is timed in the
same way. `cpu` is the processor seconds of all processes per megabyte of gradients, and `cores` the number of cores
that a step kept busy. After an interruption, the command resumes after the last finished task.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from autosync.cost import all_reduce_bound_seconds
from autosync.layout.all_reduce import layout_of
from autosync.spec import (
    ALGORITHMS,
    AllReduce,
    ClusterSpec,
    ModelSpec,
    ParameterServer,
    Partition,
    Strategy,
    VariableStrategy,
)
from studies.by_hand.peers.contenders import busiest_link_seconds
from studies.by_hand.peers.engine import EngineDriver, start_engine
from studies.by_hand.peers.host_processes import HostProcesses
from studies.by_hand.peers.links import cluster_of, goodput_share
from studies.by_hand.peers.rivals import start_ddp, start_mirrored
from studies.by_hand.peers.tasks import dense, sparse
from studies.by_hand.peers.turns import (
    ENOUGH_TURNS,
    TimedContender,
    cpu_seconds_a_step,
    median_step,
    spread,
    step_bytes,
    turns_of,
)
from trials.emulate import Emulated

MEGABYTES = "1,4,16,64"
NEW = ("blueconnect", "direct", "fitted")
"""All-reduces that are fitted to a topology."""

LARGEST_ON_ONE_SERVER = 16_000_000
"""Most gradient bytes on one server, because larger transfers through its link take long and give no new
information."""

SPARSE = (sparse(40_000, 64, 4096),)
MOST_STEPS, LEAST_STEPS = 10, 2
LONGEST_STEP_SECONDS = 6.0
"""Ways whose ideal is longer than this are not timed."""

FLOW_CALLS = 5

Build = Callable[[ModelSpec, ClusterSpec], Strategy]


@click.group()
def main() -> None:
    """Communication alone."""


@main.command()
@click.argument("clusters", nargs=-1, required=True)
@click.option("--out", type=Path, required=True, help="JSON file of the results; existing results are kept.")
@click.option("--megabytes", default=MEGABYTES, show_default=True, help="Sizes of all-reduce.")
@click.option("--turns", default=ENOUGH_TURNS, show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="Approximate seconds of a turn's timed steps.")
@click.option("--name", default="bench-collectives", show_default=True, help="The emulated cluster's name.")
def over(clusters: tuple[str, ...], out: Path, megabytes: str, turns: int, seconds: float, name: str) -> None:
    """Time all ways on each of CLUSTERS: stars such as 4x200mbit or 4xunshaped, or cluster files."""
    from trials.emulate import emulated

    done = json.loads(out.read_text()) if out.exists() else {}
    tasks = [*(dense(round(float(size) * 1e6)) for size in megabytes.split(",")), *SPARSE]
    for text in clusters:
        missing = [task for task in tasks if task not in done.get(text, {})]
        if not missing:
            continue
        with emulated(name, cluster_of(text), start_ray=False) as made, _all_systems(made) as (engine, rivals):
            for task in missing:
                result = _time_task(task, engine, rivals, made, (turns, seconds))
                done.setdefault(text, {})[task] = result
                out.write_text(json.dumps(done))
                _print(text, task, result)


@main.command()
@click.argument("out", type=Path)
def show(out: Path) -> None:
    """Print the results in OUT."""
    for text, tasks in json.loads(out.read_text()).items():
        for task, result in tasks.items():
            _print(text, task, result)


@main.command()
@click.argument("out", type=Path)
def table(out: Path) -> None:
    """Print the results in OUT as a table: steps over the bound for the best all-reduce, older ones and rivals."""
    print("| cluster | MB | bound (ms) | best | | best of before | ring | gloo | TensorFlow | cpu s/MB: best, ring |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for text, tasks in json.loads(out.read_text()).items():
        for result in tasks.values():
            if result["bound_seconds"]:
                print(_row(text, result))


def _row(text: str, result: dict[str, Any]) -> str:
    share, megabytes = statistics.median(result["share"]), result["gradient_bytes"] / 1e6
    bound = result["bound_seconds"] / share
    turns = {name.removeprefix("all-reduce, "): turns_of_way for name, turns_of_way in result["turns"].items()}
    over = {name: median_step(turns_of_way) / bound for name, turns_of_way in turns.items()}
    reduced = {name: ratio for name, ratio in over.items() if name in ALGORITHMS}
    best = min(reduced, key=lambda name: reduced[name])
    before = min((name for name in reduced if name not in NEW), key=lambda name: reduced[name])
    low, high = (end / bound for end in spread([statistics.median(turn["step_seconds"]) for turn in turns[best]]))
    cpu = [cpu_seconds_a_step(turns[name]) / megabytes for name in (best, "ring")]
    rest = [f"{over[name]:.2f}" if name in over else "" for name in ("ring", "gloo", "mwms")]
    cells = [Path(text).stem, f"{megabytes:g}", f"{bound * 1e3:.1f}", best, f"{over[best]:.2f} [{low:.2f}, {high:.2f}]"]
    cells += [f"{before} {over[before]:.2f}", *rest, f"{cpu[0]:.3f}, {cpu[1]:.3f}"]
    return f"| {' | '.join(cells)} |"


@contextmanager
def _all_systems(made: Emulated) -> Iterator[tuple[EngineDriver, dict[str, HostProcesses]]]:
    with ExitStack() as stack:
        rivals = {
            "gloo": stack.enter_context(start_ddp(made.hosts)),
            "mwms": stack.enter_context(start_mirrored(made.hosts)),
        }
        yield stack.enter_context(start_engine(made)), rivals


def _time_task(
    task: str, engine: EngineDriver, rivals: dict[str, HostProcesses], made: Emulated, how_long: tuple[int, float]
) -> dict[str, Any]:
    """Run all turns of one task."""
    turns, seconds = how_long
    model, hosts, cluster = engine.load(task), made.hosts, engine.cluster
    share, only_sparse = goodput_share(cluster, hosts), all(variable.sparse for variable in model.variables)
    entries = [_of_engine(engine, way, build(model, cluster)) for way, build in _ways(model, cluster).items()]
    if not only_sparse:
        ring = busiest_link_seconds(model, cluster, _by_all_reduce("ring")(model, cluster))
        entries += [(_of_rival(way, crew, int(model.gradient_bytes)), ring) for way, crew in rivals.items()]
    least_seconds = {contender.name: least for contender, least in entries}

    def steps(contender: TimedContender) -> int:
        return min(max(round(seconds * share / least_seconds[contender.name]), LEAST_STEPS), MOST_STEPS)

    short = [contender for contender, _ in entries if least_seconds[contender.name] <= LONGEST_STEP_SECONDS]
    timed, faults = turns_of(short, hosts, turns, steps)
    flow_bytes = int(min(model.gradient_bytes, 16_000_000))
    return {
        "gradient_bytes": model.gradient_bytes,
        "share": [share, goodput_share(cluster, hosts)],
        "transport": [flow_bytes / seconds for seconds in engine.ring_flow_seconds(flow_bytes, FLOW_CALLS)],
        "bound_seconds": None if only_sparse else _bound_seconds(model, cluster),
        "least_seconds": least_seconds,
        "turns": timed,
        "faults": faults,
    }


def _ways(model: ModelSpec, cluster: ClusterSpec) -> dict[str, Build]:
    """Return the ways to synchronize the variable of `model`, by name, with only the algorithms that differ here."""
    only_sparse = all(variable.sparse for variable in model.variables)
    ways: dict[str, Build] = {}
    if only_sparse:
        ways["rows gathered by all"] = _by_all_reduce("ring")
    else:
        ways |= {
            f"all-reduce, {algorithm}": _by_all_reduce(algorithm)
            for algorithm in ALGORITHMS
            if layout_of(algorithm).differs(cluster)
        }
    if only_sparse or model.gradient_bytes <= LARGEST_ON_ONE_SERVER:
        ways["one server"] = _on_servers(1)
    ways["server on each node, cut"] = _on_servers(None)
    return ways


def _bound_seconds(model: ModelSpec, cluster: ClusterSpec) -> float | None:
    return all_reduce_bound_seconds(cluster, [str(device) for device in cluster.replica_devices], model.gradient_bytes)


def _by_all_reduce(algorithm: str) -> Build:
    def build(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
        replicas = tuple(str(device) for device in cluster.replica_devices)
        return Strategy(
            replicas, tuple(VariableStrategy(variable.name, (AllReduce(0, algorithm),)) for variable in model.variables)
        )

    return build


def _on_servers(count: int | None) -> Build:
    """Return a builder that puts variables on the first `count` nodes, or on all; several nodes share rows."""

    def build(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
        servers = [ParameterServer(str(device)) for device in cluster.server_devices[:count]]
        cut = Partition(0, len(servers)) if len(servers) > 1 else None
        replicas = tuple(str(device) for device in cluster.replica_devices)
        return Strategy(
            replicas, tuple(VariableStrategy(variable.name, tuple(servers), cut) for variable in model.variables)
        )

    return build


def _of_engine(engine: EngineDriver, name: str, strategy: Strategy) -> tuple[TimedContender, float]:
    least = busiest_link_seconds(engine.model, engine.cluster, strategy)
    return (
        TimedContender(
            name,
            lambda: engine.realize(strategy),
            lambda steps: engine.run(0, steps)["step_seconds"],
            engine.cpu_seconds,
        ),
        least,
    )


def _of_rival(name: str, crew: HostProcesses, gradient_bytes: int) -> TimedContender:
    def run(steps: int) -> list[float]:
        answers = crew.ask("reduce", bytes=gradient_bytes, warmup=0, steps=steps)
        return [max(of_step) for of_step in zip(*(reply["step_seconds"] for reply in answers), strict=True)]

    return TimedContender(
        name, lambda: crew.ask("reduce", bytes=gradient_bytes, warmup=1, steps=0), run, crew.cpu_seconds
    )


def _print(text: str, task: str, result: dict[str, Any]) -> None:
    share, transport = (statistics.median(result[key]) for key in ("share", "transport"))
    megabytes, bound = result["gradient_bytes"] / 1e6, result["bound_seconds"]
    print(
        f"\n{text}, {task}: {megabytes:.2f} MB of gradients; in a ring plain TCP carries {share:.1%} of the rates, "
        f"TensorFlow's transport {transport * 8e-6:.0f} Mbit/s"
        + (f"; the bound is {bound / share * 1e3:.1f} ms" if bound else "")
    )
    print(
        f"  {'':<32}{'ms':>9}  {'interval':>17}{'/ bound':>9}{'ideal':>9}{'/ ideal':>9}{'MB counted':>12}"
        f"{'cpu s/MB':>10}{'cores':>7}"
    )
    for name, turns in sorted(result["turns"].items(), key=lambda item: median_step(item[1])):
        ideal, seconds = result["least_seconds"][name] / share, median_step(turns)
        low, high = spread([statistics.median(turn["step_seconds"]) for turn in turns])
        interval, cpu = f"{low * 1e3:.1f} - {high * 1e3:.1f}", cpu_seconds_a_step(turns)
        print(
            f"  {name:<32}{seconds * 1e3:9.1f}  {interval:>17}"
            + (f"{seconds * share / bound:9.2f}" if bound else f"{'':>9}")
            + f"{ideal * 1e3:9.1f}{seconds / ideal:9.2f}{step_bytes(turns) / 1e6:12.2f}"
            f"{cpu / megabytes:10.4f}{cpu / seconds:7.2f}"
        )
    for name, fault in result["faults"].items():
        print(f"  {name:<32} not timed: {fault}")


if __name__ == "__main__":
    main()
