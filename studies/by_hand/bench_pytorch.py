"""Steps of the PyTorch engine compared with DistributedDataParallel, on an emulated cluster, in turns.

    python -m studies.by_hand.bench_pytorch --cluster topologies/paced_two_racks.yaml --model bert-mini \\
        --strategy runs/NAME/strategy.json

Needs root. One process per node holds all contenders and steps them in turns, so all of them see the same machine. DDP
takes its default buckets (the first of 1 MiB, the others of 25 MiB), and smaller ones as views of the gradients; the
PyTorch engine takes a ring in buckets of 25 MB, and the strategies given; "overlapped" steps have no barrier, so that
gradients travel during the next forward pass. Passes are paced where the cluster's are: an
autograd chain sleeps until each release and returns constant gradients, so both kinds of hooks see a backward pass.
Prints medians of rank 0 with 95 % intervals, processor time per step, and the lower bound of a step.
"""

from __future__ import annotations

import copy
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from autosync.baselines import baselines_for
from autosync.engine.core.pacing import Moment, PassMoments
from autosync.engine.pytorch.capture import capture, profile
from autosync.engine.pytorch.ddp import HandedGradient, playback_loss
from autosync.engine.pytorch.distribution import synchronize
from autosync.engine.pytorch.task import ModuleTask
from autosync.spec import ClusterSpec, ModelSpec, Strategy, median_interval
from autosync.terminal import say
from autosync.zoo import build_task
from studies.by_hand.torch_hosts import PLAN, output_of_ranks
from trials.cluster.file import read_cluster_file

WARM_UP = 3
SHORTEST_SLEEP = 1e-3
"""Reads that are closer together happen at once, because every sleep takes processor time."""


class SleepingPasses(nn.Module):
    """The parameters of a module, whose passes take a stated time and compute nothing.

    The forward pass reads each parameter at its time; a read that waits for values shifts the rest of the pass.
    """

    def __init__(self, module: nn.Module, model: ModelSpec, releases: Sequence[Moment], seconds: float) -> None:
        super().__init__()
        self.module = module
        names, profile = [variable.name for variable in model.variables], model.pace_profile
        assert profile is not None
        forward = seconds * profile.forward_seconds / (profile.forward_seconds + profile.backward_seconds)
        self._reads = sorted((forward * fraction, name) for name, fraction in (profile.read or {}).items())
        parameters = dict(module.named_parameters())
        self._groups = [[parameters[names[number]] for number in release.variables] for release in releases]
        self._due = [seconds * release.fraction for release in releases]
        self._constants = [[torch.full_like(parameter, 1e-3) for parameter in group] for group in self._groups]

    def forward(self) -> torch.Tensor:
        begin = self._read_parameters()
        handed: list[HandedGradient] = []
        for due, group, constants in zip(self._due, self._groups, self._constants, strict=True):
            waits = [partial(_sleep_until, begin + due), *[None] * (len(group) - 1)]
            handed += zip(waits, group, constants, strict=True)
        return playback_loss(handed)

    def _read_parameters(self) -> float:
        """Read all parameters at their times; return the beginning of the pass, put off by the waits for values."""
        begin, parameters = time.perf_counter(), dict(self.module.named_parameters())
        for due, name in self._reads:
            if begin + due - time.perf_counter() > SHORTEST_SLEEP:
                _sleep_until(begin + due)
            waiting = time.perf_counter()
            parameters[name].data_ptr()
            begin += time.perf_counter() - waiting
        return begin


def _sleep_until(due: float) -> None:
    left = due - time.perf_counter()
    if left > 0:
        time.sleep(left)


@dataclass
class SteppedModule:
    """A way to synchronize, with a module of its own."""

    name: str
    module: nn.Module
    optimizer: torch.optim.Optimizer
    loss: Callable[[], torch.Tensor]

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()


Wrap = Callable[[nn.Module, torch.optim.Optimizer], nn.Module]
"""A function that has the gradients of a module synchronized, and returns the module to call."""


@click.command()
@click.option("--cluster", "file", type=Path, default=Path("topologies/paced_two_racks.yaml"), show_default=True)
@click.option("--model", default="bert-mini", show_default=True)
@click.option("--strategy", "strategies", multiple=True, help="Strategy files or names of baselines; repeatable.")
@click.option("--rounds", default=6, show_default=True)
@click.option("--steps", default=10, show_default=True, help="Timed steps of a contender in a round.")
def main(file: Path, model: str, strategies: tuple[str, ...], rounds: int, steps: int) -> None:
    """Time all contenders in turns, and print a table."""
    cluster = read_cluster_file(file)
    plan = {"model": model, "strategies": strategies, "rounds": rounds, "steps": steps}
    _print(output_of_ranks(cluster, "studies.by_hand.bench_pytorch", plan))


def _print(results: dict[str, Any]) -> None:
    first = next(iter(results.values()))
    for name, result in results.items():
        least, most = result["interval"]
        say(
            f"{name:34} {1e3 * result['median']:7.1f} ms [{1e3 * least:.1f}, {1e3 * most:.1f}]"
            f"  {result['median'] / first['median']:.3f} of {next(iter(results))}"
            f"  processor {1e3 * result['processor']:.1f} ms"
        )


def run_rank(plan: dict[str, Any]) -> None:
    """Step all contenders in turns as one rank; rank 0 prints the results as JSON."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    cluster = ClusterSpec.from_json(plan["cluster"])
    seconds: dict[str, list[float]] = {}
    processor: dict[str, list[float]] = {}
    contenders = list(_contenders(plan["model"], plan["strategies"], cluster))
    for turn in range(plan["rounds"]):
        for contender in contenders if turn % 2 == 0 else reversed(contenders):
            for number in range(WARM_UP + plan["steps"]):
                if number == WARM_UP:
                    dist.barrier()
                    used = time.process_time()
                began = time.perf_counter()
                contender.step()
                if number >= WARM_UP:
                    seconds.setdefault(contender.name, []).append(time.perf_counter() - began)
            processor.setdefault(contender.name, []).append((time.process_time() - used) / plan["steps"])
            dist.barrier()
    if dist.get_rank() == 0:
        results = {
            name: {
                "median": statistics.median(times),
                "interval": median_interval(times),
                "processor": statistics.median(processor[name]),
            }
            for name, times in seconds.items()
        }
        sys.stdout.write(json.dumps(results))
    dist.barrier()


def _contenders(model: str, strategies: Sequence[str], cluster: ClusterSpec) -> Iterator[SteppedModule]:
    task: ModuleTask = build_task(model, framework="pytorch")
    captured = [profile(capture(task))]
    dist.broadcast_object_list(captured)  # one rank's times for all
    spec = captured[0].spec
    releases = PassMoments.of(spec).releases if cluster.paced else ()

    def contender(name: str, wrap: Wrap) -> SteppedModule:
        module, optimizer = copy.deepcopy((task.module, task.optimizer))
        if releases:
            pace = cluster.nodes[0].pace
            assert pace is not None
            assert spec.pace_profile is not None
            seconds = pace.seconds(spec.pace_profile, 0, 0, "", 1.0)
            paced = wrap(SleepingPasses(module, spec, releases, seconds), optimizer)
            return SteppedModule(name, paced, optimizer, lambda: paced())
        wrapped = wrap(module, optimizer)
        own = ModuleTask(task.name, task.builder, wrapped, task.loss, task.batch, optimizer)
        return SteppedModule(name, wrapped, optimizer, lambda: own.loss_on(own.batch))

    def engine(strategy: Strategy, overlaps: bool) -> Wrap:
        def wrap(module: nn.Module, _: torch.optim.Optimizer) -> nn.Module:
            inner = module.module if isinstance(module, SleepingPasses) else module
            synchronize(inner, strategy, cluster, overlaps=overlaps)
            return module

        return wrap

    yield contender("DDP", lambda module, _: DistributedDataParallel(module))
    for megabytes in (0.5, 1.0):
        yield contender(
            f"DDP, {megabytes} MiB, views",
            lambda module, _, size=megabytes: DistributedDataParallel(
                module, bucket_cap_mb=size, gradient_as_bucket_view=True
            ),
        )
    for text in ("all_reduce_25mb", *strategies):
        known = text in baselines_for("pytorch")
        strategy = (
            baselines_for("pytorch")[text](spec, cluster)
            if known
            else Strategy.from_json(json.loads(Path(text).read_text()))
        )
        for overlaps in (False, True):
            name = text if known else f"strategy {strategy.digest[:8]}"
            yield contender(f"{name}, overlapped" if overlaps else name, engine(strategy, overlaps))


if __name__ == "__main__":
    if PLAN in os.environ:
        run_rank(json.loads(os.environ[PLAN]))
    else:
        main()
