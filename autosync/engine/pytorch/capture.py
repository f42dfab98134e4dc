"""A PyTorch module captured for a search: its variables, the times of its passes, and the values it starts from."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch.utils.flop_counter import FlopCounterMode

from autosync.engine.core.touched_rows import SAMPLED_BATCHES, TouchedRows, mean_rows
from autosync.engine.pytorch.check_step import check_step
from autosync.engine.pytorch.optimizer import needs_closure, settings_of
from autosync.engine.pytorch.random_state import fix_random_state
from autosync.engine.pytorch.reads import is_compiled, parts_of
from autosync.engine.pytorch.task import SEED, ModuleTask, build_task, load_values, state_of, variable_of
from autosync.engine.pytorch.timed_passes import measure_profile
from autosync.errors import ModelError
from autosync.spec import ModelSpec, Operator

DOCUMENT = "captured"
"""The key of the JSON document in the metadata of the bytes."""


NO_ROWS = np.zeros(0, dtype=np.int64)
WORTH_A_NOTE = 0.1
"""The share of sparse gradients in the bytes of all gradients from which their rows are worth a note."""


@dataclass(frozen=True)
class CapturedModule:
    """A module with its spec. Other processes build the module again, and load the same values into it."""

    spec: ModelSpec
    builder: str
    values: Mapping[str, torch.Tensor]
    """Parameters and buffers at the start, by name."""
    notes: tuple[str, ...] = ()
    updates_early: bool = True
    """Whether a parameter can be updated within the backward pass, as soon as its gradient is complete."""

    @cached_property
    def task(self) -> ModuleTask:
        """The task with the captured values. Raises `ModelError` if the function now builds another module."""
        return self.build()

    def build(self) -> ModuleTask:
        """Another task with the captured values. Raises `ModelError`."""
        task = build_task(self.builder, self.spec.name)
        load_values(task, self.values)
        return task

    def to_bytes(self) -> bytes:
        """A safetensors file of the values, with the rest as JSON in its metadata."""
        document = {
            "spec": self.spec.to_json(),
            "builder": self.builder,
            "notes": self.notes,
            "updates_early": self.updates_early,
        }
        return save_tensors(dict(self.values), metadata={DOCUMENT: json.dumps(document)})

    @classmethod
    def from_bytes(cls, data: bytes) -> CapturedModule:
        """The module that `to_bytes` wrote. Raises `ModelError` for other bytes."""
        try:
            size = int.from_bytes(data[:8], "little")
            document = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][DOCUMENT])
            spec = ModelSpec.from_json(document["spec"])
            builder, notes, updates_early = document["builder"], tuple(document["notes"]), document["updates_early"]
            return cls(spec, builder, load_tensors(data), notes, updates_early)
        except (KeyError, TypeError, ValueError, SafetensorError) as error:
            raise ModelError(f"These bytes are no captured PyTorch module ({error}); capture it again.") from None


def capture(task: ModuleTask) -> CapturedModule:
    """The captured module of `task`, not profiled yet. Raises `ModelError` if it cannot be trained.

    All passes run on a copy of the task; the memory of the copy then holds the captured values.
    """
    if needs_closure(task.optimizer):
        raise ModelError(
            f"{type(task.optimizer).__name__} of {task.name!r} computes several gradients in a step, and strategies "
            "synchronize one; use an optimizer whose step needs no closure, such as Adam."
        )
    with fix_random_state(SEED):
        copied = task.fresh()
        copies, originals = state_of(copied.module), state_of(task.module)
        checked = check_step(copied, task.fresh)
        _copy(originals, copies)
        operators = _operators(copied)
        rows = {name: None if one is None else TouchedRows(one) for name, one in checked.rows.items()}
        if task.data is not None:
            rows |= _rows_of_batches(copied, [name for name, touched in rows.items() if touched])
        notes = tuple(_notes(copied, checked.updates_early))
        _copy(originals, copies)
    order = {name: number for number, name in enumerate(checked.rows)}
    variables = tuple(
        variable_of(name, parameter, order[name], rows[name], checked.factor_rows.get(name))
        for name, parameter in task.parameters.items()
    )
    spec = ModelSpec(task.name, task.batch_size, _words(task.optimizer), checked.slots, variables, operators)
    notes = *notes, *_notes_on_rows(spec)
    return CapturedModule(spec, task.builder, _separate(copies), notes, checked.updates_early)


def profile(captured: CapturedModule) -> CapturedModule:
    """`captured` with the times of its passes on this machine's CPU. Raises `ModelError`."""
    with fix_random_state(SEED):
        times = measure_profile(captured.build())
    return replace(captured, spec=replace(captured.spec, profile=times))


def _rows_of_batches(task: ModuleTask, names: Sequence[str]) -> dict[str, TouchedRows]:
    """By name, the rows of tables with sparse gradients that batches of the data touch. Raises `ModelError`."""
    touched: dict[str, list[Any]] = {name: [] for name in names}
    for number in range(SAMPLED_BATCHES if names else 0):
        task.optimizer.zero_grad()
        batch = task.read_batch(number)
        try:
            task.loss_on(batch).backward()
            for name, of_batches in touched.items():
                gradient = task.parameters[name].grad
                of_batches.append(NO_ROWS if gradient is None else gradient.coalesce().indices()[0].numpy())
        except Exception as error:  # a user's module may raise any error on its batch
            raise ModelError(
                f"A step of {task.name!r} on batch {number} of its data failed with {type(error).__name__}: {error}."
            ) from error
    return {name: mean_rows(of_batches) for name, of_batches in touched.items()}


def _copy(sources: Mapping[str, torch.Tensor], targets: Mapping[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, target in targets.items():
            target.copy_(sources[name])


def _separate(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors, contiguous and each with memory of its own, as files hold them; copied only where they are not."""
    seen, separate = set[int](), dict[str, torch.Tensor]()
    for name, tensor in tensors.items():
        storage = tensor.untyped_storage()
        if not tensor.is_contiguous() or storage.nbytes() != tensor.nbytes or storage.data_ptr() in seen:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        seen.add(storage.data_ptr())
        separate[name] = tensor.detach()
    return separate


def _notes(task: ModuleTask, updates_early: bool) -> Iterator[str]:
    """Sentences on properties of the task that a user may not expect."""
    if not updates_early:
        yield (
            f"Parameters of {task.name!r} are updated after the backward pass only: updated within it, a gradient "
            "becomes NaN or the step fails, as with x * w.detach()."
        )
    if any(is_compiled(part) for part in task.module.modules()):
        yield (
            f"{task.name!r} has compiled modules, whose gradients are complete only at the end of their backward pass; "
            "compile blocks rather than the whole module, so that communication overlaps with computation."
        )
    elif _is_sum(task):
        yield (
            f"The loss of {task.name!r} doubles with the batch, so it is a sum; gradients are averaged over replicas, "
            "so divide the loss by the number of examples, or choose the learning rate for one replica's batch."
        )


def _notes_on_rows(spec: ModelSpec) -> Iterator[str]:
    """A sentence if sparse gradients are a good part of all gradients, and all replicas touch the same rows."""
    alike = {
        variable.name: variable.gradient_bytes
        for variable in spec.variables
        if variable.sparse and variable.rows_of_two is None
    }
    if sum(alike.values()) > WORTH_A_NOTE * spec.gradient_bytes:
        yield (
            f"All replicas look up the same rows of {max(alike, key=lambda name: alike[name])!r}, because each takes "
            "the example batch in another order, so servers of these rows look faster than with your data. Return a "
            "DataLoader instead of the batch, so that replicas look up rows of their own."
        )


def _is_sum(task: ModuleTask) -> bool:
    """Whether the loss of the doubled example batch is twice that of the batch."""
    task.module.eval()  # without dropout, and with statistics that do not depend on the batch
    try:
        with torch.no_grad():
            single, doubled = (float(task.loss_on(batch)) for batch in (task.batch_of(0), task.two_batches))
    except Exception:  # of a module that takes batches of one size
        return False
    return doubled != 0 and abs(doubled - 2 * single) <= 1e-3 * abs(doubled)


def _words(optimizer: torch.optim.Optimizer) -> str:
    """The optimizer's name with the settings of all its parameter groups."""
    settings = [
        {name: value for name, value in sorted(group.items()) if _is_setting(value)} for group in settings_of(optimizer)
    ]
    return f"{type(optimizer).__name__} {json.dumps(settings[0] if len(settings) == 1 else settings)}"


def _is_setting(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | tuple)


def _operators(task: ModuleTask) -> tuple[Operator, ...]:
    """The modules that have parameters of their own, in the order of the forward pass, with their flops."""
    parts = {name: (part, parameters) for name, part, parameters in parts_of(task.module)}
    names = {parameter: name for name, parameter in task.parameters.items()}
    called: dict[str, None] = {}
    handles = [
        part.register_forward_pre_hook(lambda _module, _inputs, name=name: called.setdefault(name))
        for name, (part, _) in parts.items()
    ]
    with FlopCounterMode(display=False) as counter, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Using `torch.compile\(module\)` when there are global hooks")
        task.loss_on(task.batch_of(0))
    for handle in handles:
        handle.remove()
    counts = counter.get_flop_counts()
    prefix = type(task.module).__name__
    operators: list[Operator] = []
    flops_of = _without_inner(
        {name: sum(counts.get(f"{prefix}.{name}" if name else prefix, {}).values()) for name in called}
    )
    for name, flops in flops_of.items():
        part, parameters = parts[name]
        variables = tuple(names[parameter] for parameter in parameters if parameter in names)
        before = (operators[-1].name,) if operators else ()
        operators.append(Operator(name or prefix, type(part).__name__, float(flops), before, variables))
    return tuple(operators)


def _without_inner(flops: Mapping[str, int]) -> dict[str, int]:
    """The flops of each module without those of modules inside it."""
    remaining = dict(flops)
    for name, count in flops.items():
        outer = [module for module in flops if module != name and (not module or name.startswith(f"{module}."))]
        if outer:
            nearest = max(outer, key=len)
            remaining[nearest] = max(0, remaining[nearest] - count)
    return remaining
