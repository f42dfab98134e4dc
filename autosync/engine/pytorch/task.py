"""A training task in PyTorch: a module with its loss, an example batch and an optimizer, from a function's name."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader

from autosync.engine.core.touched_rows import TouchedRows
from autosync.engine.core.user_function import call_user_function, check_framework, user_function
from autosync.engine.pytorch.numbered_batches import NumberedBatches
from autosync.engine.pytorch.random_state import fix_random_state
from autosync.errors import ModelError
from autosync.spec import DTYPE_BYTES, Variable

SEED = 0
"""The seed of random generators while a function builds its module, so all ranks build the same module."""


@dataclass(frozen=True)
class ModuleTask:
    """Everything that a training step of one replica consists of."""

    name: str
    builder: str
    """The function that builds the task, as `package.module:function`; other processes call it again."""
    module: nn.Module
    loss: Callable[[Any, Any], torch.Tensor]
    """(outputs of the module, targets) -> a scalar, the mean over the batch."""
    batch: tuple[Any, Any]
    """Inputs and targets: tensors, or tuples or dicts of tensors, whose first axis counts examples."""
    optimizer: torch.optim.Optimizer
    data: NumberedBatches | None = None
    """The batches of the data; None to train on the example batch."""

    @property
    def batch_size(self) -> int:
        """Examples of one replica in a step."""
        return int(_tensors(self.batch[0])[0].shape[0])

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The trainable parameters by name, each once."""
        return {name: value for name, value in self.module.named_parameters() if value.requires_grad}

    def loss_on(self, batch: tuple[Any, Any]) -> torch.Tensor:
        """The loss of the module on `batch`."""
        inputs, targets = batch
        if isinstance(inputs, tuple):
            outputs = self.module(*inputs)
        elif isinstance(inputs, Mapping):
            outputs = self.module(**inputs)
        else:
            outputs = self.module(inputs)
        return self.loss(outputs, targets)

    def batch_of(self, number: int) -> tuple[Any, Any]:
        """The example batch, rolled by `number` examples, so that batches differ."""
        inputs, targets = _map_tensors(self.batch, lambda tensor: torch.roll(tensor, number, 0))
        return inputs, targets

    def training_batch(self, number: int) -> tuple[Any, Any]:
        """The batch `number` of the data; without data, that of `batch_of`."""
        if self.data is None:
            return self.batch_of(number)
        inputs, targets = _map_tensors(self.data.read(number), lambda tensor: tensor)
        return inputs, targets

    def read_batch(self, number: int) -> tuple[Any, Any]:
        """The training batch `number`, drawn with its number as seed. Raises `ModelError`."""
        try:
            with fix_random_state(number % (1 << 32)):
                return self.training_batch(number)
        except ModelError:
            raise
        except Exception as error:  # of a user's data
            raise ModelError(
                f"Batch {number} of the data of {self.name!r} could not be read: {type(error).__name__}: {error}."
            ) from error

    @property
    def two_batches(self) -> tuple[Any, Any]:
        """The example batch, followed by itself."""
        inputs, targets = _map_tensors(self.batch, lambda tensor: torch.cat([tensor, tensor]))
        return inputs, targets

    def fresh(self) -> ModuleTask:
        """The task with a module and an optimizer of its own, in the present state. Raises `ModelError`."""
        copied = self._copy()
        if copied is not None:
            module, optimizer = copied
        else:
            built = build_task(self.builder, self.name)
            load_values(built, state_of(self.module))
            built.optimizer.load_state_dict(self.optimizer.state_dict())
            module, optimizer = built.module, built.optimizer
        return replace(self, module=module, optimizer=optimizer)

    def _copy(self) -> tuple[nn.Module, torch.optim.Optimizer] | None:
        """A copy of the module and the optimizer; None if the module, such as one with weight_norm, cannot be copied.

        A Keras model copies itself by its configuration, which renames parameters and leaves the optimizer behind.
        """
        try:
            copied = copy.deepcopy((self.module, self.optimizer))  # together, so that they share parameters
        except Exception:  # any error of a user's module
            return None
        return copied if state_of(copied[0]).keys() == state_of(self.module).keys() else None


def variable_of(
    name: str, parameter: nn.Parameter, ready_order: int, rows: TouchedRows | None, factor_rows: int | None = None
) -> Variable:
    """The parameter as a variable of a model.

    `rows` is None for a dense gradient, `factor_rows` for a gradient without sufficient factors.
    """
    dtype = _name_of(parameter.dtype)
    shape = tuple(parameter.shape)
    if rows is None:
        return Variable(name, shape, dtype, ready_order, factor_rows=factor_rows)
    return Variable(name, shape, dtype, ready_order, True, rows.one, rows_of_two=rows.two, copied=True)


def copy_batch(batch: tuple[Any, Any]) -> tuple[Any, Any]:
    """A copy of the batch, which a module may change."""
    inputs, targets = _map_tensors(batch, torch.clone)
    return inputs, targets


def state_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by name, each once."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def load_values(task: ModuleTask, values: Mapping[str, torch.Tensor]) -> None:
    """Copy `values` into the parameters and buffers of a task that was built again. Raises `ModelError`."""
    state = state_of(task.module)
    if {name: tensor.shape for name, tensor in state.items()} != {name: item.shape for name, item in values.items()}:
        raise ModelError(
            f"{task.builder!r} built another module here than when it was captured; let it return the same module "
            "in every process."
        )
    with torch.no_grad():
        for name, tensor in state.items():
            tensor.copy_(values[name])


def build_task(builder: str, name: str | None = None) -> ModuleTask:
    """Call the function `builder`, named as `package.module:function`, and check its result.

    The function takes no arguments and returns (module, loss, (inputs, targets), optimizer), or a `DataLoader` of such
    batches instead of one. Raises `ModelError`.
    """
    function = user_function(builder)
    if naming := sys.modules.get("keras.src.utils.naming"):
        naming.reset_uids()  # so that a Keras model on PyTorch has the same names each time
    with fix_random_state(SEED):
        returned = call_user_function(builder, function)
    return task_of(builder, name or builder, returned)


def task_of(builder: str, name: str, returned: Any) -> ModuleTask:
    """The task called `name` of the value that the function `builder` returned. Raises `ModelError`."""
    check_framework(builder, returned, "pytorch")
    rule = f"{builder!r} must return (module, loss, (inputs, targets), optimizer)"
    if not isinstance(returned, tuple) or len(returned) != 4:
        items = f" of {len(returned)} items" if isinstance(returned, tuple) else ""
        raise ModelError(f"{rule}, not {type(returned).__name__}{items}.")
    module, loss, batch, optimizer = returned
    if not isinstance(module, nn.Module):
        raise ModelError(f"{rule}; its first item is {type(module).__name__} and no torch.nn.Module.")
    if not callable(loss):
        raise ModelError(f"{rule}; its second item is {type(loss).__name__} and no function of outputs and targets.")
    data = NumberedBatches(batch, builder) if isinstance(batch, DataLoader) else None
    if data is not None:
        batch = data.read(0)
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        raise ModelError(f"{rule}; its third item is no pair of inputs and targets, nor a DataLoader of such batches.")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ModelError(f"{rule}; its fourth item is {type(optimizer).__name__} and no torch.optim.Optimizer.")
    sizes = {tensor.shape[0] if tensor.ndim else 0 for tensor in _tensors(batch)}
    if len(sizes) != 1 or 0 in sizes:
        raise ModelError(f"{builder!r}: all tensors of the example batch need the same number of examples, at least 1.")
    task = ModuleTask(name, builder, module, loss, (batch[0], batch[1]), optimizer, data)
    if (fault := next(_faults_of_module(module), None)) is not None:
        raise ModelError(f"{builder!r}: {fault}.")
    held = {value for group in optimizer.param_groups for value in group["params"]}
    for parameter_name, parameter in task.parameters.items():
        if parameter not in held:
            raise ModelError(f"{builder!r}: the optimizer does not hold parameter {parameter_name!r}; give it all.")
        if (fault := next(_faults_of_parameter(parameter), None)) is not None:
            raise ModelError(f"{builder!r}: parameter {parameter_name!r} {fault}.")
    return task


def _faults_of_module(module: nn.Module) -> Iterator[str]:
    for name, part in module.named_modules():
        if part._compiled_call_impl is not None:
            yield f"module {name!r} is compiled in place, and its copies are not; compile it with torch.compile(module)"
    for name, tensor in state_of(module).items():
        if is_lazy(tensor):
            yield f"{name!r} of a lazy module has no shape yet; call the module on the batch before returning it"
        if tensor.layout is not torch.strided:
            yield f"{name!r} is a sparse tensor, which no file of values can hold; keep its indices and values apart"


def _faults_of_parameter(parameter: nn.Parameter) -> Iterator[str]:
    dtype = _name_of(parameter.dtype)
    if parameter.device.type != "cpu":
        yield f"is on {parameter.device}; build it on the CPU"
    if dtype not in DTYPE_BYTES:
        yield f"has dtype {dtype}, and only {', '.join(DTYPE_BYTES)} can be trained; hold it as one of these"
    if not parameter.numel():
        yield f"has no elements (its shape is {tuple(parameter.shape)}); freeze it with requires_grad_(False)"


def _name_of(dtype: torch.dtype) -> str:
    """The name of a dtype as specs have it, such as `float32`."""
    return str(dtype).removeprefix("torch.")


def _tensors(structure: Any) -> list[torch.Tensor]:
    """The tensors of a structure of tuples, lists and dicts."""
    tensors: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        tensors.append(tensor)
        return tensor

    _map_tensors(structure, note)
    return tensors


def _map_tensors(structure: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The structure with `change` applied to every tensor."""
    if isinstance(structure, Mapping):
        return {name: _map_tensors(item, change) for name, item in structure.items()}
    if isinstance(structure, tuple | list):
        return tuple(_map_tensors(item, change) for item in structure)
    if not isinstance(structure, torch.Tensor):
        raise ModelError(f"An example batch holds tensors only, not {type(structure).__name__}; convert it.")
    return change(structure)
