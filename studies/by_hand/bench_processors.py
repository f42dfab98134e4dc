"""The processors' busy time in a step, by kind of work, and the gain that better overlap could still reach.

    python -m studies.by_hand.bench_processors --cluster 4x200mbit --model vgg-mini poseidon parameter_server mine.json

Needs root, and a machine without other work, because all work of the processors counts. Strategies (baselines by name,
or strategy files) take turns on one emulated cluster. The columns are: the median of the turns' median steps with its
95 % interval, and the time per step that each processor is *busy*, averaged over processors. Busy time consists of the
two *passes*, at the time of a single replica; the kernel's soft interrupts, most of which are for *packets*; and the
*rest*: sending, summing, updating, and slowdown from running in parallel. Paced passes only wait and are not busy time.
`at most` is step over busy time: the largest speed-up by another order of the same work that keeps all processors busy
to the end.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass, field

import click

from autosync.baselines import BASELINES
from autosync.spec import median_interval
from autosync.train.given_strategy import read_strategy
from studies.by_hand.peers.engine import EngineDriver, start_engine
from studies.by_hand.peers.links import cluster_of
from studies.by_hand.peers.processors import jiffies
from trials.emulate import emulated

WARMUP = 8
PROCESSORS = os.cpu_count() or 1


@dataclass
class ProcessorTimes:
    """Measurements of a strategy, one value per turn."""

    step: list[float] = field(default_factory=list)
    """Median seconds of a step."""
    busy: list[float] = field(default_factory=list)
    """Seconds per step that a processor was busy."""
    packets: list[float] = field(default_factory=list)
    """Seconds per step that a processor spent on soft interrupts."""


@click.command()
@click.argument("strategies", nargs=-1, required=True)
@click.option("--cluster", default="4x200mbit", show_default=True, help="A star, or a cluster file.")
@click.option("--model", default="vgg-mini", show_default=True)
@click.option("--turns", default=6, show_default=True)
@click.option("--steps", default=60, show_default=True, help="Steps of each turn.")
def main(strategies: tuple[str, ...], cluster: str, model: str, turns: int, steps: int) -> None:
    """Measure the processors' busy time under STRATEGIES."""
    spec = cluster_of(cluster)
    times = {name: ProcessorTimes() for name in strategies}
    with emulated("processors", spec, start_ray=False) as made, start_engine(made, paced_replicas=1) as engine:
        loaded = engine.load(model, paced=spec if spec.paced else None)
        pass_seconds = 0.0 if spec.paced else engine.pass_seconds()
        chosen = {
            name: BASELINES[name](loaded, spec) if name in BASELINES else read_strategy(name) for name in strategies
        }
        for _ in range(turns):
            for name, strategy in chosen.items():
                engine.realize(strategy)
                engine.run(warmup=WARMUP, steps=0)
                _turn(engine, steps, times[name])
    _print(model, pass_seconds, len(spec.replica_devices), times)


def _turn(engine: EngineDriver, steps: int, into: ProcessorTimes) -> None:
    before = jiffies()
    into.step.append(statistics.median(engine.run(warmup=0, steps=steps)["step_seconds"]))
    spent, seconds = jiffies() - before, 1 / os.sysconf("SC_CLK_TCK") / PROCESSORS / steps
    into.busy.append(spent.busy * seconds)
    into.packets.append(spent.on_packets * seconds)


def _print(model: str, pass_seconds: float, replicas: int, times: dict[str, ProcessorTimes]) -> None:
    passes = pass_seconds * replicas / PROCESSORS
    print(f"{model}: {replicas} replicas on {PROCESSORS} processors; milliseconds a step")
    print(f"{'':32} {'step':>7} {'interval':>15} {'busy':>7} {'passes':>7} {'packets':>8} {'rest':>6} {'at most':>8}")
    for name, measured in times.items():
        step, busy, packets = map(statistics.median, (measured.step, measured.busy, measured.packets))
        low, high = median_interval(measured.step)
        print(
            f"{name:32} {step * 1e3:7.1f} {low * 1e3:7.1f} -{high * 1e3:6.1f} {busy * 1e3:7.1f} {passes * 1e3:7.1f} "
            f"{packets * 1e3:8.1f} {(busy - passes - packets) * 1e3:6.1f} {step / busy:7.2f}x"
        )


if __name__ == "__main__":
    main()
