"""The profile of a module on this machine's CPU, from some of its passes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from statistics import fmean, median

import torch
from torch import nn

from autosync.engine.pytorch.reads import ForwardReads
from autosync.engine.pytorch.task import ModuleTask
from autosync.errors import ModelError
from autosync.spec import ModelProfile, VariableUse

STEPS, MOST_SECONDS = 9, 3.0
"""Steps that are timed, unless they take longer than this in all; two are timed in any case."""

SHORTEST_PASS = 1e-9


def measure_profile(task: ModuleTask) -> ModelProfile:
    """Medians of some steps of `task`, as processor time of one computing thread: other processes count little.

    Every second step notes the reads of parameters, which slows its forward pass down; only the fractions of the pass
    are taken from it. The first step is not timed. Raises `ModelError`.
    """
    plain, noted = list[_Passes](), list[_Passes]()
    began = time.monotonic()
    try:
        with _single_thread():
            _take_step(task, 0, notes_reads=False)
            for number in range(1, STEPS + 1):
                (plain if number % 2 else noted).append(_take_step(task, number, notes_reads=number % 2 == 0))
                if number > 1 and time.monotonic() - began > MOST_SECONDS:
                    break
    except Exception as error:  # a user's module may raise any error on its batch
        raise ModelError(f"A step of {task.name!r} failed with {type(error).__name__}: {error}.") from error
    return ModelProfile(
        median(step.forward_seconds for step in plain),
        median(step.backward_seconds for step in plain + noted),
        {name: _median_of(name, [step.ready for step in plain + noted]) for name in task.parameters},
        {name: _median_of(name, [step.read for step in noted]) for name in task.parameters},
        _median_uses([step.uses for step in noted]) or None,
    )


@contextmanager
def _single_thread() -> Iterator[None]:
    """Have PyTorch compute with one thread.

    Waiting threads spin, which counts as processor time: with two threads on a busy machine of two cores, the passes of
    bert-mini seemed to take 50 times as long.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class _Passes:
    """The passes of a step; the times of parameters are fractions of a pass."""

    forward_seconds: float
    backward_seconds: float
    ready: Mapping[str, float]
    read: Mapping[str, float]
    """Empty if reads were not noted."""
    uses: tuple[VariableUse, ...]


def _take_step(task: ModuleTask, number: int, notes_reads: bool) -> _Passes:
    names = {parameter: name for name, parameter in task.parameters.items()}
    ready: dict[str, float] = {}

    def on_gradient(parameter: nn.Parameter) -> None:
        ready[names[parameter]] = time.process_time()
        parameter.grad = None  # so that few gradients are in memory at once

    reads = ForwardReads(task.module, names) if notes_reads else None
    batch = task.batch_of(number)
    with reads or nullcontext():
        forward_began = time.process_time()
        loss = task.loss_on(batch)
        forward = max(time.process_time() - forward_began, SHORTEST_PASS)
    uses = reads.uses(loss) if reads else {}
    handles = [parameter.register_post_accumulate_grad_hook(on_gradient) for parameter in names]
    began = time.process_time()
    try:
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
    backward = max(time.process_time() - began, SHORTEST_PASS)
    return _Passes(
        forward,
        backward,
        {name: _share(at - began, backward) for name, at in ready.items()},
        {name: _share(reads.first(parameter), forward) for parameter, name in names.items()} if reads else {},
        tuple(
            VariableUse(names[parameter], _share(use.read, forward), _share(use.ready_at - began, backward), use.rows)
            for parameter, in_order in uses.items()
            for use in in_order
        ),
    )


def _share(seconds: float, whole: float) -> float:
    return min(1.0, max(0.0, seconds / whole))


def _median_of(name: str, steps: Sequence[Mapping[str, float]]) -> float:
    """The median of the steps that have `name`; 1 if none has it."""
    return median([times[name] for times in steps if name in times] or [1.0])


def _median_uses(steps: Sequence[tuple[VariableUse, ...]]) -> tuple[VariableUse, ...]:
    """Medians of the uses in those steps that use the same variables as the first step; means of rows."""
    signature = [(use.variable, use.rows is None) for use in steps[0]]
    alike = [uses for uses in steps if [(use.variable, use.rows is None) for use in uses] == signature]
    return tuple(
        VariableUse(
            same[0].variable,
            median(use.read for use in same),
            median(use.ready for use in same),
            None if same[0].rows is None else fmean(use.rows or 0.0 for use in same),
        )
        for same in zip(*alike, strict=True)
    )
