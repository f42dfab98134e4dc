"""The state of a step: as tensors by name on ranks and in files, and as a `StepState` in between.

The names of tensors:

    value/NAME           a trained parameter, which all ranks share
    slot/NAME/KEY/0      a tensor that the optimizer keeps for a parameter; of a sparse one, the indices
    slot/NAME/KEY/1      the values of a sparse one
    number/NAME/KEY      a number that the optimizer keeps for a parameter
    group/NUMBER/KEY     a numeric setting of a parameter group
    replica/NUMBER/NAME  a replica's own buffer or frozen parameter
    memory/RANK/NAME     the memory of a rank's compressors
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from autosync.engine.core.step_state import StepState
from autosync.engine.pytorch.arrays import array_of, tensor_of
from autosync.engine.pytorch.capture import CapturedModule
from autosync.engine.pytorch.task import ModuleTask, state_of
from autosync.engine.pytorch.zero import local_optimizer
from autosync.errors import SpecError
from autosync.numeric import AnyArray
from autosync.spec import ModelSpec

Tensors = dict[str, torch.Tensor]

SHARED_BY = 0
"""The rank that contributes the tensors that all ranks share."""


def state_on(task: ModuleTask, rank: int, memory: Mapping[str, torch.Tensor]) -> Tensors:
    """Copies of the tensors that `rank` contributes to the state; `memory` is that of its compressors.

    Under ZeroRedundancyOptimizer, every rank contributes the optimizer's tensors for its own parameters. Raises
    `SpecError` if the optimizer keeps objects that are neither tensors nor numbers.
    """
    own = {f"replica/{rank}/{name}": _copy(tensor) for name, tensor in _replica_tensors(task).items()}
    own |= {f"memory/{rank}/{name}": _copy(tensor) for name, tensor in memory.items()}
    holder = local_optimizer(task.optimizer)
    if rank == SHARED_BY or holder is not task.optimizer:
        names: dict[torch.Tensor, str] = {parameter: name for name, parameter in task.parameters.items()}
        for parameter, kept in holder.state.items():
            for key, value in kept.items():
                own |= _kept(f"{names[parameter]}/{key}", value)
    if rank != SHARED_BY:
        return own
    shared = {f"value/{name}": _copy(parameter) for name, parameter in task.parameters.items()}
    for number, group in enumerate(task.optimizer.param_groups):
        for key, value in group.items():
            if isinstance(value, bool | int | float):
                shared[f"group/{number}/{key}"] = _number(value)
            elif isinstance(value, torch.Tensor):
                shared[f"group/{number}/{key}"] = _copy(value)
    return shared | own


def load_on(
    task: ModuleTask, rank: int, tensors: Mapping[str, torch.Tensor], memory: Mapping[str, torch.Tensor]
) -> None:
    """Put the state of all ranks in place on `rank`; `memory` is that of its compressors.

    Raises `SpecError` for the state of a strategy with other compressors.
    """
    if any(f"memory/{rank}/{name}" not in tensors for name in memory):
        raise SpecError("A state must have the memory of this strategy's compressors; it is another strategy's.")
    with torch.no_grad():
        for name, parameter in task.parameters.items():
            parameter.copy_(tensors[f"value/{name}"])
        for name, tensor in _replica_tensors(task).items():
            tensor.copy_(tensors[f"replica/{rank}/{name}"])
        for name, tensor in memory.items():
            tensor.copy_(tensors[f"memory/{rank}/{name}"])
    optimizer = task.optimizer
    for number, group in enumerate(optimizer.param_groups):
        for key, before in group.items():
            setting = tensors.get(f"group/{number}/{key}")
            if setting is not None:
                group[key] = setting.to(before.device) if isinstance(before, torch.Tensor) else setting.item()
    holder = local_optimizer(optimizer)
    held = {parameter for group in holder.param_groups for parameter in group["params"]}
    state = holder.state
    state.clear()
    for key, tensor in tensors.items():
        kind, _, rest = key.partition("/")
        if kind == "number":
            name, slot = rest.rsplit("/", 1)
            if (parameter := task.parameters[name]) in held:
                state[parameter][slot] = tensor.item()
        elif kind == "slot" and rest.endswith("/0"):
            name, slot, _ = rest.rsplit("/", 2)
            parameter, values = task.parameters[name], tensors.get(f"slot/{name}/{slot}/1")
            if parameter not in held:
                continue
            if values is None:
                state[parameter][slot] = _copy(tensor)
            else:
                table = torch.sparse_coo_tensor(tensor, values, parameter.shape, check_invariants=False)
                state[parameter][slot] = table.clone()


def as_step_state(tensors: Mapping[str, torch.Tensor], ranks: Sequence[int], steps: int) -> StepState:
    """The state of all replicas after `steps` steps; replica m is on rank `ranks[m]`."""
    arrays = {key: array_of(tensor) for key, tensor in tensors.items()}
    names = sorted(key.split("/", 2)[2] for key in tensors if key.startswith(f"replica/{SHARED_BY}/"))
    slots: dict[str, tuple[AnyArray, ...]] = {}
    for key in sorted(tensors):
        kind, _, rest = key.partition("/")
        if kind == "slot":
            place = rest.rpartition("/")[0]
            slots[place] = (*slots.get(place, ()), arrays[key])
    return StepState(
        values={key.partition("/")[2]: array for key, array in arrays.items() if key.startswith("value/")},
        slots=slots,
        scalars={key: (array,) for key, array in arrays.items() if key.startswith(("number/", "group/", "memory/"))},
        replica_state=tuple(tuple(arrays[f"replica/{rank}/{name}"] for name in names) for rank in ranks),
        replica_steps=(steps,) * len(ranks),
        synchronizer_state=(),
    )


def as_tensors(state: StepState, ranks: Sequence[int], untrained: Sequence[str]) -> Tensors:
    """The inverse of `as_step_state`; `untrained` has the sorted names of a replica's own tensors."""
    tensors = {f"value/{name}": tensor_of(array) for name, array in state.values.items()}
    for place, arrays in state.slots.items():
        tensors |= {f"slot/{place}/{number}": tensor_of(array) for number, array in enumerate(arrays)}
    tensors |= {key: tensor_of(arrays[0]) for key, arrays in state.scalars.items()}
    for rank, arrays in zip(ranks, state.replica_state, strict=True):
        named = zip(untrained, arrays, strict=True)
        tensors |= {f"replica/{rank}/{name}": tensor_of(array) for name, array in named}
    return tensors


def replica_names(captured: CapturedModule) -> list[str]:
    """The names of the tensors that a replica keeps for itself, sorted."""
    return sorted(captured.values.keys() - captured.spec.by_name.keys())


def check_fits(state: StepState, model: ModelSpec, ranks: Sequence[int], untrained: Sequence[str]) -> None:
    """Raise `SpecError` if the state is that of another model or of another number of replicas."""
    shapes = {name: array.shape for name, array in state.values.items()}
    slots = {place.rpartition("/")[0] for place in state.slots}
    if shapes != {variable.name: variable.shape for variable in model.variables} or not slots <= shapes.keys():
        raise SpecError(f"A state must have the parameters of {model.name!r} in their shapes; this is another model's.")
    if [len(arrays) for arrays in state.replica_state] != [len(untrained)] * len(ranks):
        raise SpecError(
            f"A state must have {len(untrained)} untrained tensors for each of {len(ranks)} replicas; this is another "
            "model's or another strategy's."
        )


def _replica_tensors(task: ModuleTask) -> Tensors:
    """The tensors that a replica keeps for itself, by name."""
    return {name: tensor for name, tensor in state_of(task.module).items() if name not in task.parameters}


def _kept(place: str, value: Any) -> Tensors:
    """An object that the optimizer keeps at `place`, which names a parameter and a key. Raises `SpecError`."""
    if isinstance(value, torch.Tensor) and value.is_sparse:
        return {f"slot/{place}/0": _copy(value._indices()), f"slot/{place}/1": _copy(value._values())}
    if isinstance(value, torch.Tensor):
        return {f"slot/{place}/0": _copy(value)}
    if isinstance(value, bool | int | float):
        return {f"number/{place}": _number(value)}
    if value is None:
        return {}
    raise SpecError(
        f"A checkpoint holds tensors and numbers, but the optimizer keeps a {type(value).__name__} at {place!r}; use "
        "another optimizer, or train in your own loop with autosync.torch.distribute."
    )


def _number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)
