"""The growth of a trial's cost with workers and variables: seconds to place, of the first step, and of a later step.

    python -m studies.by_hand.bench_growth over --out growth.json
    python -m studies.by_hand.bench_growth show growth.json

Needs root. The synthetic models have 1 MB in 10, 100 or 1 000 variables and almost no compute. Workers are logical
devices of one process, or processes on the nodes of an emulated cluster with links as fast as the machine. The first
step includes tracing. Figures are medians over rounds, in which strategies take turns. After an interruption, the
command resumes after the last finished cell.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from autosync.spec import AllReduce, ClusterSpec, ModelSpec, ParameterServer, Strategy, Synchronizer, VariableStrategy
from studies.by_hand.peers.engine import MEMBER, EngineDriver, start_engine
from studies.by_hand.peers.host_processes import HostProcesses
from studies.by_hand.peers.links import star
from studies.by_hand.peers.tasks import dense

GRADIENT_BYTES = 1_000_000
LATER_STEPS = 5
MOST_MESSAGES = 25_000
"""Most messages per step of a strategy. Tracing a strategy with more takes minutes, so it is left out."""

Decide = Callable[[int, list[str]], Synchronizer]
STRATEGIES: dict[str, Decide] = {
    "one ring": lambda _number, _servers: AllReduce(0),
    "a ring a variable": lambda number, _servers: AllReduce(number),
    "servers in turn": lambda number, servers: ParameterServer(servers[number % len(servers)]),
}


@click.group()
def main() -> None:
    """Growth of costs."""


@main.command()
@click.option("--out", type=Path, required=True, help="JSON file of the results; existing results are kept.")
@click.option("--devices", default="2,4,8,16", show_default=True, help="Numbers of workers in one process.")
@click.option("--nodes", default="2,4,8", show_default=True, help="Numbers of workers on nodes of their own.")
@click.option("--variables", default="10,100,1000", show_default=True)
@click.option("--rounds", default=3, show_default=True)
@click.option("--name", default="bench-growth", show_default=True, help="The emulated cluster's name.")
def over(out: Path, devices: str, nodes: str, variables: str, rounds: int, name: str) -> None:
    """Time every strategy for each number of workers and of variables."""
    done = json.loads(out.read_text()) if out.exists() else {}
    for kind, counts in (("devices", devices), ("nodes", nodes)):
        for workers in _numbers(counts):
            missing = [count for count in _numbers(variables) if f"{kind}/{workers}/{count}" not in done]
            if not missing:
                continue
            with _workers(kind, workers, name) as engine:
                for count in missing:
                    result = _cell(engine, count, rounds)
                    done[f"{kind}/{workers}/{count}"] = result
                    out.write_text(json.dumps(done))
                    _print(f"{kind}/{workers}/{count}", result)


@main.command()
@click.argument("out", type=Path)
def show(out: Path) -> None:
    """Print the results in OUT."""
    for cell, result in json.loads(out.read_text()).items():
        _print(cell, result)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


@contextmanager
def _workers(kind: str, count: int, name: str) -> Iterator[EngineDriver]:
    from trials.emulate import emulated

    with emulated(name, star(f"{count if kind == 'nodes' else 1}xunshaped"), start_ray=False) as made:
        if kind == "nodes":
            with start_engine(made) as engine:
                yield engine
            return
        with HostProcesses(made.hosts, MEMBER, ["client"]) as client:
            yield EngineDriver(ClusterSpec.from_json(client.ask("devices", workers=count)[0]), None, client)


def _cell(engine: EngineDriver, variables: int, rounds: int) -> dict[str, Any]:
    """Return the seconds of all rounds by strategy, and the client's memory at the end."""
    model = engine.load(dense(GRADIENT_BYTES, variables))
    seconds_of: dict[str, Any] = {}
    for _ in range(rounds):
        for name, decide in STRATEGIES.items():
            strategy = _strategy(model, engine.cluster, decide)
            if _messages(strategy) > MOST_MESSAGES:
                seconds_of[name] = []
                continue
            seconds = engine.realize(strategy)
            steps = engine.run(0, LATER_STEPS)["step_seconds"]
            seconds_of.setdefault(name, []).append(seconds | {"step_seconds": statistics.median(steps)})
    return {"rounds": seconds_of, "client_bytes": engine.memory_bytes()[0]}


def _strategy(model: ModelSpec, cluster: ClusterSpec, decide: Decide) -> Strategy:
    servers = [str(device) for device in cluster.server_devices]
    decided = (VariableStrategy(v.name, (decide(number, servers),)) for number, v in enumerate(model.variables))
    return Strategy(tuple(str(device) for device in cluster.replica_devices), tuple(decided))


def _messages(strategy: Strategy) -> int:
    """Return the number of tensors that a step sends between workers."""
    workers = len(strategy.replicas)
    groups = {shard.group for _, _, shard in strategy.shards() if isinstance(shard, AllReduce)}
    on_servers = sum(isinstance(shard, ParameterServer) for _, _, shard in strategy.shards())
    return 2 * workers * (workers - 1) * len(groups) + 2 * workers * on_servers


def _print(cell: str, result: dict[str, Any]) -> None:
    kind, workers, variables = cell.split("/")
    print(
        f"\n{workers} workers ({'logical devices' if kind == 'devices' else 'emulated nodes'}), {variables} variables; "
        f"client {result['client_bytes'] / 1e6:.0f} MB"
    )
    print(f"  {'median seconds':<24}{'place':>9}{'first step':>12}{'later step':>12}{'switch':>9}")
    for name, rounds in result["rounds"].items():
        if not rounds:
            print(f"  {name:<24}over {MOST_MESSAGES} messages a step: left out")
            continue
        place, first, step = (
            statistics.median(times[key] for times in rounds)
            for key in ("place_seconds", "first_seconds", "step_seconds")
        )
        print(f"  {name:<24}{place:9.3f}{first:12.3f}{step:12.4f}{place + first - step:9.3f}")


if __name__ == "__main__":
    main()
