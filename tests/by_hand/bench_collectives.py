"""Communication alone: all-reduce, parameter servers and sparse tables against what the links can carry.

    python -m tests.by_hand.bench_collectives over 4x200mbit topologies/three_racks.yaml --out collectives.json
    python -m tests.by_hand.bench_collectives show collectives.json
    python -m tests.by_hand.bench_collectives table collectives.json

Needs torch. A step is one of training, through the engine, of a model that hardly computes: one variable
whose gradient is a repeated number, or one table of which rows are looked up. So it holds the step's call, its update
and the loss's way back. A server sends values back in the step that updates them, while other gradients still come in,
so that both directions of a link can be busy at once, as the ideal has it; of a table rows are pulled while gradients,
which here wait for no value, are pushed. The all-reduce of gloo and of the mirrored strategy are timed by themselves,
without any of that. In turns (A/B/C/A/B/C...), medians with the 95 % interval over turns (the range, with under six).

The bound is what no all-reduce on these links goes below (`all_reduce_bound_seconds`), the ideal what the busiest link
of a way's own bytes takes. Both reckon with the rates that links were set to, times the share of them that plain TCP
carried in flows from each node to the next, all at once, timed before and after. TensorFlow's own transport is timed
the same way beside it. `cpu` is processor seconds of all processes for each megabyte of gradients, `cores` how many of
them a step kept busy. Interrupted, it goes on after the last task that was done.
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
from autosync.layout.all_reduce import laid_out
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
from tests.by_hand.peers.contenders import busiest_link_seconds
from tests.by_hand.peers.crew import Crew
from tests.by_hand.peers.engine import Engine, engine_on
from tests.by_hand.peers.links import carried_share, cluster_of
from tests.by_hand.peers.rivals import ddp_on, mirrored_on
from tests.by_hand.peers.tasks import dense, sparse
from tests.by_hand.peers.turns import (
    ENOUGH_TURNS,
    Contender,
    cpu_seconds_a_step,
    median_step,
    spread,
    step_bytes,
    turns_of,
)
from trials.emulate import Emulated

MEGABYTES = "1,4,16,64"
NEW = ("blueconnect", "direct", "fitted")
"""All-reduces that are made for a topology."""

LARGEST_ON_ONE_SERVER = 16_000_000
"""Most gradient bytes on one server: more through its link would take longer than it tells."""

SPARSE = (sparse(40_000, 64, 4096),)
MOST_STEPS, LEAST_STEPS = 10, 2
LONGEST_STEP_SECONDS = 6.0
"""What must take longer, by its links, is not timed."""

FLOW_CALLS = 5

Build = Callable[[ModelSpec, ClusterSpec], Strategy]


@click.group()
def main() -> None:
    """Communication alone."""


@main.command()
@click.argument("clusters", nargs=-1, required=True)
@click.option("--out", type=Path, required=True, help="JSON file of what was measured; what is in it is not redone.")
@click.option("--megabytes", default=MEGABYTES, show_default=True, help="Sizes of all-reduce.")
@click.option("--turns", default=ENOUGH_TURNS, show_default=True)
@click.option("--seconds", default=2.0, show_default=True, help="About how long a turn's timed steps should take.")
@click.option("--name", default="bench-collectives", show_default=True, help="The emulated cluster's name.")
def over(clusters: tuple[str, ...], out: Path, megabytes: str, turns: int, seconds: float, name: str) -> None:
    """Time everything on each of CLUSTERS: stars such as 4x200mbit or 4xunshaped, or cluster files."""
    from trials.emulate import emulated

    done = json.loads(out.read_text()) if out.exists() else {}
    tasks = [*(dense(round(float(each) * 1e6)) for each in megabytes.split(",")), *SPARSE]
    for text in clusters:
        missing = [task for task in tasks if task not in done.get(text, {})]
        if not missing:
            continue
        with emulated(name, cluster_of(text), start_ray=False) as made, _everyone(made) as (engine, rivals):
            for task in missing:
                found = _timed(task, engine, rivals, made, (turns, seconds))
                done.setdefault(text, {})[task] = found
                out.write_text(json.dumps(done))
                _print(text, task, found)


@main.command()
@click.argument("out", type=Path)
def show(out: Path) -> None:
    """Print what OUT holds."""
    for text, tasks in json.loads(out.read_text()).items():
        for task, found in tasks.items():
            _print(text, task, found)


@main.command()
@click.argument("out", type=Path)
def table(out: Path) -> None:
    """Print what OUT holds as a table: steps over the bound, of the best all-reduce, of older ones and of rivals."""
    print("| cluster | MB | bound (ms) | best | | best of before | ring | gloo | TensorFlow | cpu s/MB: best, ring |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for text, tasks in json.loads(out.read_text()).items():
        for found in tasks.values():
            if found["bound_seconds"]:
                print(_row(text, found))


def _row(text: str, found: dict[str, Any]) -> str:
    share, megabytes = statistics.median(found["share"]), found["gradient_bytes"] / 1e6
    bound = found["bound_seconds"] / share
    turns = {name.removeprefix("all-reduce, "): each for name, each in found["turns"].items()}
    over = {name: median_step(each) / bound for name, each in turns.items()}
    reduced = {name: each for name, each in over.items() if name in ALGORITHMS}
    best = min(reduced, key=lambda name: reduced[name])
    before = min((name for name in reduced if name not in NEW), key=lambda name: reduced[name])
    low, high = (each / bound for each in spread([statistics.median(turn["step_seconds"]) for turn in turns[best]]))
    cpu = [cpu_seconds_a_step(turns[name]) / megabytes for name in (best, "ring")]
    rest = [f"{over[name]:.2f}" if name in over else "" for name in ("ring", "gloo", "mwms")]
    cells = [Path(text).stem, f"{megabytes:g}", f"{bound * 1e3:.1f}", best, f"{over[best]:.2f} [{low:.2f}, {high:.2f}]"]
    cells += [f"{before} {over[before]:.2f}", *rest, f"{cpu[0]:.3f}, {cpu[1]:.3f}"]
    return f"| {' | '.join(cells)} |"


@contextmanager
def _everyone(made: Emulated) -> Iterator[tuple[Engine, dict[str, Crew]]]:
    with ExitStack() as stack:
        rivals = {"gloo": stack.enter_context(ddp_on(made.hosts)), "mwms": stack.enter_context(mirrored_on(made.hosts))}
        yield stack.enter_context(engine_on(made)), rivals


def _timed(
    task: str, engine: Engine, rivals: dict[str, Crew], made: Emulated, how_long: tuple[int, float]
) -> dict[str, Any]:
    """All turns of one task."""
    turns, seconds = how_long
    model, hosts, cluster = engine.load(task), made.hosts, engine.cluster
    share, only_sparse = carried_share(cluster, hosts), all(each.sparse for each in model.variables)
    entries = [_of_engine(engine, way, build(model, cluster)) for way, build in _ways(model, cluster).items()]
    if not only_sparse:
        ring = busiest_link_seconds(model, cluster, _by_all_reduce("ring")(model, cluster))
        entries += [(_of_rival(way, crew, int(model.gradient_bytes)), ring) for way, crew in rivals.items()]
    least_seconds = {contender.name: least for contender, least in entries}

    def steps(contender: Contender) -> int:
        return min(max(round(seconds * share / least_seconds[contender.name]), LEAST_STEPS), MOST_STEPS)

    short = [each for each, _ in entries if least_seconds[each.name] <= LONGEST_STEP_SECONDS]
    found, faults = turns_of(short, hosts, turns, steps)
    flow_bytes = int(min(model.gradient_bytes, 16_000_000))
    return {
        "gradient_bytes": model.gradient_bytes,
        "share": [share, carried_share(cluster, hosts)],
        "transport": [flow_bytes / each for each in engine.ring_flow_seconds(flow_bytes, FLOW_CALLS)],
        "bound_seconds": None if only_sparse else _bound_seconds(model, cluster),
        "least_seconds": least_seconds,
        "turns": found,
        "faults": faults,
    }


def _ways(model: ModelSpec, cluster: ClusterSpec) -> dict[str, Build]:
    """How the one variable of `model` can be synchronized, by a name for the table; algorithms that differ here."""
    only_sparse = all(each.sparse for each in model.variables)
    ways: dict[str, Build] = {}
    if only_sparse:
        ways["rows gathered by all"] = _by_all_reduce("ring")
    else:
        ways |= {
            f"all-reduce, {algorithm}": _by_all_reduce(algorithm)
            for algorithm in ALGORITHMS
            if laid_out(algorithm).differs(cluster)
        }
    if only_sparse or model.gradient_bytes <= LARGEST_ON_ONE_SERVER:
        ways["one server"] = _on_servers(1)
    ways["server on each node, cut"] = _on_servers(None)
    return ways


def _bound_seconds(model: ModelSpec, cluster: ClusterSpec) -> float | None:
    return all_reduce_bound_seconds(cluster, [str(each) for each in cluster.replica_devices], model.gradient_bytes)


def _by_all_reduce(algorithm: str) -> Build:
    def build(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
        replicas = tuple(str(each) for each in cluster.replica_devices)
        return Strategy(
            replicas, tuple(VariableStrategy(each.name, (AllReduce(0, algorithm),)) for each in model.variables)
        )

    return build


def _on_servers(count: int | None) -> Build:
    """Variables on the first `count` nodes, or on all; several nodes share each variable by rows."""

    def build(model: ModelSpec, cluster: ClusterSpec) -> Strategy:
        servers = [ParameterServer(str(each)) for each in cluster.server_devices[:count]]
        cut = Partition(0, len(servers)) if len(servers) > 1 else None
        replicas = tuple(str(each) for each in cluster.replica_devices)
        return Strategy(replicas, tuple(VariableStrategy(each.name, tuple(servers), cut) for each in model.variables))

    return build


def _of_engine(engine: Engine, name: str, strategy: Strategy) -> tuple[Contender, float]:
    least = busiest_link_seconds(engine.model, engine.cluster, strategy)
    return (
        Contender(
            name,
            lambda: engine.realize(strategy),
            lambda steps: engine.run(0, steps)["step_seconds"],
            engine.cpu_seconds,
        ),
        least,
    )


def _of_rival(name: str, crew: Crew, gradient_bytes: int) -> Contender:
    def run(steps: int) -> list[float]:
        answers = crew.ask("reduce", bytes=gradient_bytes, warmup=0, steps=steps)
        return [max(of_step) for of_step in zip(*(each["step_seconds"] for each in answers), strict=True)]

    return Contender(name, lambda: crew.ask("reduce", bytes=gradient_bytes, warmup=1, steps=0), run, crew.cpu_seconds)


def _print(text: str, task: str, found: dict[str, Any]) -> None:
    share, transport = (statistics.median(found[key]) for key in ("share", "transport"))
    megabytes, bound = found["gradient_bytes"] / 1e6, found["bound_seconds"]
    print(
        f"\n{text}, {task}: {megabytes:.2f} MB of gradients; in a ring plain TCP carries {share:.1%} of the rates, "
        f"TensorFlow's transport {transport * 8e-6:.0f} Mbit/s"
        + (f"; the bound is {bound / share * 1e3:.1f} ms" if bound else "")
    )
    print(
        f"  {'':<32}{'ms':>9}  {'interval':>17}{'/ bound':>9}{'ideal':>9}{'/ ideal':>9}{'MB counted':>12}"
        f"{'cpu s/MB':>10}{'cores':>7}"
    )
    for name, turns in sorted(found["turns"].items(), key=lambda item: median_step(item[1])):
        ideal, seconds = found["least_seconds"][name] / share, median_step(turns)
        low, high = spread([statistics.median(turn["step_seconds"]) for turn in turns])
        interval, cpu = f"{low * 1e3:.1f} - {high * 1e3:.1f}", cpu_seconds_a_step(turns)
        print(
            f"  {name:<32}{seconds * 1e3:9.1f}  {interval:>17}"
            + (f"{seconds * share / bound:9.2f}" if bound else f"{'':>9}")
            + f"{ideal * 1e3:9.1f}{seconds / ideal:9.2f}{step_bytes(turns) / 1e6:12.2f}"
            f"{cpu / megabytes:10.4f}{cpu / seconds:7.2f}"
        )
    for name, fault in found["faults"].items():
        print(f"  {name:<32} not timed: {fault}")


if __name__ == "__main__":
    main()
