"""One rank of a training loop as users write it, started by `torchrun` on a node of a paced cluster.

    torchrun --nnodes 4 --node-rank 0 --master-addr HOST ... -m studies.proof.training_rank PLAN

`studies.proof.training` writes the plan. The rank trains the same model from the same values on the same batches under
each strategy in turns. Passes are computed, and then held to the node's pace: a gradient goes on at its time in the
pass, and a module of the forward pass reads its parameters at theirs. Rank 0 prints the answer as one line of JSON.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import autosync.torch
from autosync.engine.core.pacing import PassMoments, wait_until
from autosync.engine.pytorch.task import ModuleTask
from autosync.engine.pytorch.zero import shard_optimizer_on
from autosync.layout.apart import apart
from autosync.spec import ClusterSpec, Device, ModelSpec, Strategy, read_json
from autosync.spec.codec import Noun
from autosync.zoo import build_task


@dataclass(frozen=True)
class TrainingPlan(Noun, what="A plan of training"):
    """A request to train one model under some strategies in turns."""

    name: str
    """The name of the model in the zoo, or its function as `package.module:function`."""
    model: ModelSpec
    """With the profile that paces follow."""
    cluster: ClusterSpec
    strategies: tuple[Strategy, ...]
    seed: int
    rounds: int
    warm_up: int
    """Steps of each turn before the timed ones."""
    steps: int
    """Timed steps of a turn."""


@final
class HeldPasses:
    """Holds the passes of a module to a pace: reads and gradients wait for their times.

    Computing must be faster than the pace; `late_seconds` says by how much gradients were late. A read that waits for
    values puts off the rest of the pass, as a slower forward pass would.
    """

    def __init__(self, module: nn.Module, model: ModelSpec) -> None:
        """Add the hooks to `module`, before its gradients are synchronized. `model` has its profile."""
        moments, names = PassMoments.of(model), [variable.name for variable in model.variables]
        parameters = dict(module.named_parameters())
        for release in moments.releases:
            for name in (names[number] for number in release.variables):
                # Rows that are sent apart have no parameter of their own, and follow the gradients before them.
                if name in parameters:
                    parameters[name].register_hook(partial(self._hold_gradient, release.fraction))
        fractions = {names[number]: read.fraction for read in moments.reads for number in read.variables}
        for prefix, part in module.named_modules():
            own = [name for name, _ in part.named_parameters(prefix, recurse=False) if name in fractions]
            if own:
                part.register_forward_pre_hook(partial(self._hold_reads, min(fractions[name] for name in own)))
        self._begin = self._seconds = 0.0
        self.late_seconds = 0.0
        """The largest lateness of a gradient in the last pass."""

    def begin(self, seconds: float) -> None:
        """Begin a pass that takes `seconds`."""
        self._begin, self._seconds, self.late_seconds = time.perf_counter(), seconds, 0.0

    def _hold_gradient(self, fraction: float, _: torch.Tensor) -> None:
        self.late_seconds = max(self.late_seconds, self._wait(fraction))

    def _hold_reads(self, fraction: float, part: nn.Module, _: Any) -> None:
        self._wait(fraction)
        before = time.perf_counter()
        for parameter in part.parameters(recurse=False):
            parameter.data_ptr()  # waits for values that are still on their way
        self._begin += time.perf_counter() - before

    def _wait(self, fraction: float) -> float:
        """Wait until this fraction of the pass; return the lateness in seconds."""
        return float(wait_until(np.array(self._begin + fraction * self._seconds)))


@final
class TrainingLoop:
    """A copy of the model that trains under one strategy."""

    def __init__(self, task: ModuleTask, strategy: Strategy, plan: TrainingPlan) -> None:
        task = task.fresh()
        module, self._optimizer = task.module, task.optimizer
        self._held = HeldPasses(module, apart(plan.model, strategy)[0])
        if strategy.ddp is not None:
            module = DistributedDataParallel(module, **strategy.ddp.arguments)
            if strategy.ddp.zero_redundancy_optimizer:
                self._optimizer = shard_optimizer_on(
                    dist.group.WORLD, self._optimizer, **strategy.ddp.optimizer_arguments
                )
        else:
            autosync.torch.distribute(module, strategy, plan.cluster)
        self._task = replace(task, module=module, optimizer=self._optimizer)
        self._plan = plan
        self._device = str(plan.cluster.replica_devices[dist.get_rank()])
        self._steps = 0
        self.losses: list[float] = []
        """The mean loss over all ranks at the end of each turn."""
        self.late: list[float] = []
        """The largest lateness of a gradient in each timed step, in seconds."""

    def take_turn(self) -> float:
        """Train the steps of a turn; return the seconds of a timed step."""
        for _ in range(self._plan.warm_up):
            self._step()
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(self._plan.steps):
            loss = self._step()
            self.late.append(self._held.late_seconds)
        seconds = (time.perf_counter() - begin) / self._plan.steps
        dist.all_reduce(loss)
        self.losses.append(float(loss) / dist.get_world_size())
        return seconds

    def _step(self) -> torch.Tensor:
        self._held.begin(self._seconds())
        self._optimizer.zero_grad()
        loss = self._task.loss_on(self._task.training_batch(dist.get_rank() + dist.get_world_size() * self._steps))
        loss.backward()
        self._optimizer.step()
        self._steps += 1
        return loss.detach()

    def _seconds(self) -> float:
        pace, profile = self._plan.cluster.node(Device.parse(self._device).node).pace, self._plan.model.pace_profile
        assert pace is not None, "the clusters of the proof are paced"
        assert profile is not None, "a record of a paced trial has the model's profile"
        return pace.seconds(profile, self._plan.seed, self._steps, self._device, 1.0)


def train(plan: TrainingPlan) -> Mapping[str, Any]:
    """Train under all strategies in turns; return by strategy the seconds of a step in each turn, losses, lateness."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    task = build_task(plan.name, framework="pytorch")
    loops = [TrainingLoop(task, strategy, plan) for strategy in plan.strategies]
    seconds: list[list[float]] = [[] for _ in loops]
    for turn in range(plan.rounds):
        order = range(len(loops)) if turn % 2 == 0 else reversed(range(len(loops)))
        for place in order:
            seconds[place].append(loops[place].take_turn())
            dist.barrier()
    return {
        "seconds": seconds,
        "losses": [loop.losses for loop in loops],
        "late_seconds": [sum(loop.late) / len(loop.late) for loop in loops],
    }


def main(arguments: list[str]) -> int:
    plan = TrainingPlan.from_json(read_json(Path(arguments[0]), "The plan"))
    answer = train(plan)
    if dist.get_rank() == 0:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    dist.barrier()
    gc.collect()  # gloo's threads abort the interpreter's end if they hold the last tensors of DDP
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
