"""How long the processors are busy in a step, and with what: what is left for overlapping to gain.

    python -m tests.by_hand.bench_processors --cluster 4x200mbit --model vgg-mini poseidon parameter_server mine.json

Needs root, and a machine with nothing else to do: all that its processors do counts. Strategies (baselines by name, or
strategy files) take turns on one emulated cluster. Of each: the median of the turns' median steps with its 95 %
interval, and of a step the time that each processor is *busy*, as if what they do could be spread evenly. In it the two
*passes*, as one replica alone takes them, the kernel's soft interrupts, most of which are *packets*, and the *rest*:
sending, adding up, updating, and what all of it takes longer for going on at once; paced passes, which are waited for,
are none of it. `at most` is step over busy: by how
much another order of the same work could be faster if it kept all processors busy to the end, for as long as now.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass, field

import click

from autosync.baselines import BASELINES
from autosync.spec import median_interval
from autosync.train.given_strategy import read_strategy
from tests.by_hand.peers.engine import Engine, engine_on
from tests.by_hand.peers.links import cluster_of
from tests.by_hand.peers.processors import jiffies
from trials.emulate import emulated

WARMUP = 8
PROCESSORS = os.cpu_count() or 1


@dataclass
class Measured:
    """Each turn's median seconds of a step; seconds a step that each processor was busy, and on soft interrupts."""

    step: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    packets: list[float] = field(default_factory=list)


@click.command()
@click.argument("strategies", nargs=-1, required=True)
@click.option("--cluster", default="4x200mbit", show_default=True, help="A star, or a cluster file.")
@click.option("--model", default="vgg-mini", show_default=True)
@click.option("--turns", default=6, show_default=True)
@click.option("--steps", default=60, show_default=True, help="Steps of each turn.")
def main(strategies: tuple[str, ...], cluster: str, model: str, turns: int, steps: int) -> None:
    """Count what processors do under STRATEGIES."""
    spec = cluster_of(cluster)
    found = {name: Measured() for name in strategies}
    with emulated("processors", spec, start_ray=False) as made, engine_on(made, paced_replicas=1) as engine:
        loaded = engine.load(model, paced=spec if spec.paced else None)
        pass_seconds = 0.0 if spec.paced else engine.pass_seconds()
        chosen = {
            name: BASELINES[name](loaded, spec) if name in BASELINES else read_strategy(name) for name in strategies
        }
        for _ in range(turns):
            for name, strategy in chosen.items():
                engine.realize(strategy)
                engine.run(warmup=WARMUP, steps=0)
                _turn(engine, steps, found[name])
    _print(model, pass_seconds, len(spec.replica_devices), found)


def _turn(engine: Engine, steps: int, into: Measured) -> None:
    before = jiffies()
    into.step.append(statistics.median(engine.run(warmup=0, steps=steps)["step_seconds"]))
    spent, seconds = jiffies() - before, 1 / os.sysconf("SC_CLK_TCK") / PROCESSORS / steps
    into.busy.append(spent.busy * seconds)
    into.packets.append(spent.on_packets * seconds)


def _print(model: str, pass_seconds: float, replicas: int, found: dict[str, Measured]) -> None:
    passes = pass_seconds * replicas / PROCESSORS
    print(f"{model}: {replicas} replicas on {PROCESSORS} processors; milliseconds a step")
    print(f"{'':32} {'step':>7} {'interval':>15} {'busy':>7} {'passes':>7} {'packets':>8} {'rest':>6} {'at most':>8}")
    for name, measured in found.items():
        step, busy, packets = map(statistics.median, (measured.step, measured.busy, measured.packets))
        low, high = median_interval(measured.step)
        print(
            f"{name:32} {step * 1e3:7.1f} {low * 1e3:7.1f} -{high * 1e3:6.1f} {busy * 1e3:7.1f} {passes * 1e3:7.1f} "
            f"{packets * 1e3:8.1f} {(busy - passes - packets) * 1e3:6.1f} {step / busy:7.2f}x"
        )


if __name__ == "__main__":
    main()
