"""How the cost of a trial grows with workers and variables: seconds to place, of the first step, of a later one.

    python -m tests.by_hand.bench_growth over --out growth.json
    python -m tests.by_hand.bench_growth show growth.json

Needs root. Synthetic models of 1 MB in 10, 100 or 1 000 variables, which hardly compute. Workers are logical devices of
one process, or processes on the nodes of an emulated cluster whose links are as fast as the machine. The first step
includes tracing. Medians over rounds, in which strategies take turns. Interrupted, it goes on after the last cell that
was done.
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
from tests.by_hand.peers.crew import Crew
from tests.by_hand.peers.engine import MEMBER, Engine, engine_on
from tests.by_hand.peers.links import star
from tests.by_hand.peers.tasks import dense

GRADIENT_BYTES = 1_000_000
LATER_STEPS = 5
MOST_MESSAGES = 25_000
"""A strategy with more messages a step would be traced for minutes; its cell says so."""

Decide = Callable[[int, list[str]], Synchronizer]
STRATEGIES: dict[str, Decide] = {
    "one ring": lambda _number, _servers: AllReduce(0),
    "a ring a variable": lambda number, _servers: AllReduce(number),
    "servers in turn": lambda number, servers: ParameterServer(servers[number % len(servers)]),
}


@click.group()
def main() -> None:
    """How costs grow."""


@main.command()
@click.option("--out", type=Path, required=True, help="JSON file of what was measured; what is in it is not redone.")
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
                    found = _cell(engine, count, rounds)
                    done[f"{kind}/{workers}/{count}"] = found
                    out.write_text(json.dumps(done))
                    _print(f"{kind}/{workers}/{count}", found)


@main.command()
@click.argument("out", type=Path)
def show(out: Path) -> None:
    """Print what OUT holds."""
    for cell, found in json.loads(out.read_text()).items():
        _print(cell, found)


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",") if each]


@contextmanager
def _workers(kind: str, count: int, name: str) -> Iterator[Engine]:
    from trials.emulate import emulated

    with emulated(name, star(f"{count if kind == 'nodes' else 1}xunshaped"), start_ray=False) as made:
        if kind == "nodes":
            with engine_on(made) as engine:
                yield engine
            return
        with Crew(made.hosts, MEMBER, ["client"]) as client:
            yield Engine(ClusterSpec.from_json(client.ask("devices", workers=count)[0]), None, client)


def _cell(engine: Engine, variables: int, rounds: int) -> dict[str, Any]:
    """The seconds of all rounds, by strategy, and the memory of the client when all is done."""
    model = engine.load(dense(GRADIENT_BYTES, variables))
    found: dict[str, Any] = {}
    for _ in range(rounds):
        for name, decide in STRATEGIES.items():
            strategy = _strategy(model, engine.cluster, decide)
            if _messages(strategy) > MOST_MESSAGES:
                found[name] = []
                continue
            seconds = engine.realize(strategy)
            steps = engine.run(0, LATER_STEPS)["step_seconds"]
            found.setdefault(name, []).append(seconds | {"step_seconds": statistics.median(steps)})
    return {"rounds": found, "client_bytes": engine.memory_bytes()[0]}


def _strategy(model: ModelSpec, cluster: ClusterSpec, decide: Decide) -> Strategy:
    servers = [str(each) for each in cluster.server_devices]
    decided = (VariableStrategy(v.name, (decide(number, servers),)) for number, v in enumerate(model.variables))
    return Strategy(tuple(str(each) for each in cluster.replica_devices), tuple(decided))


def _messages(strategy: Strategy) -> int:
    """How many tensors a step hands from worker to worker."""
    workers = len(strategy.replicas)
    groups = {each.group for _, _, each in strategy.shards() if isinstance(each, AllReduce)}
    on_servers = sum(isinstance(each, ParameterServer) for _, _, each in strategy.shards())
    return 2 * workers * (workers - 1) * len(groups) + 2 * workers * on_servers


def _print(cell: str, found: dict[str, Any]) -> None:
    kind, workers, variables = cell.split("/")
    print(
        f"\n{workers} workers ({'logical devices' if kind == 'devices' else 'emulated nodes'}), {variables} variables; "
        f"client {found['client_bytes'] / 1e6:.0f} MB"
    )
    print(f"  {'median seconds':<24}{'place':>9}{'first step':>12}{'later step':>12}{'switch':>9}")
    for name, rounds in found["rounds"].items():
        if not rounds:
            print(f"  {name:<24}over {MOST_MESSAGES} messages a step: left out")
            continue
        place, first, step = (
            statistics.median(each[key] for each in rounds)
            for key in ("place_seconds", "first_seconds", "step_seconds")
        )
        print(f"  {name:<24}{place:9.3f}{first:12.3f}{step:12.4f}{place + first - step:9.3f}")


if __name__ == "__main__":
    main()
