"""A step on tape: every operation that PyTorch ran in a step, to be run again without Keras and without autograd.

Keras and Python take longer to launch operations than a fast GPU takes to execute them. So passes that the host
launches one operation after the other measure the host, not the GPU. A tape can be captured as a CUDA graph, which the
GPU executes without the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any


@dataclass(frozen=True)
class _Slot:
    """Stands for a tensor that an operation of the tape creates in each run."""

    number: int


@dataclass(frozen=True)
class _Operation:
    """`function(*args, **kwargs)`, with slots instead of earlier operations' results."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    makes: tuple[int, ...]
    """The slot of each tensor in the result."""


@dataclass
class Tape:
    """The operations of a forward and a backward pass, in the order in which they ran."""

    operations: list[_Operation] = field(default_factory=list)
    loss_at: int = 0
    """The number of operations in the forward pass."""
    ready_at: dict[str, int] = field(default_factory=dict)
    """The number of operations after which each variable's gradient is ready."""
    loss: Any = None
    """The slot of the loss."""
    gradients: dict[str, Any] = field(default_factory=dict)
    """The slot of each variable's gradient."""

    def run(self, reached: Callable[[int], None] = lambda _: None) -> Callable[[Any], Any]:
        """Run all operations again, on the same parameters and inputs; call `reached` with the number run so far, from
        0.

        Returns a function that finds the new tensor for `loss` or one of `gradients`.
        """
        last = self._last_uses()
        tensor_of: dict[int, Any] = {}
        reached(0)
        for number, operation in enumerate(self.operations, 1):
            args, kwargs = _map_objects((operation.args, operation.kwargs), _Slot, lambda slot: tensor_of[slot.number])
            tensors = _tensors(operation.function(*args, **kwargs))
            tensor_of.update(zip(operation.makes, tensors, strict=True))
            for slot in last.get(number, ()):
                del tensor_of[slot]
            reached(number)
        return lambda slot: tensor_of[slot.number] if isinstance(slot, _Slot) else slot

    def _last_uses(self) -> dict[int, list[int]]:
        """Return slots by the operation after which they are unused, so that memory stays at the level of a
        real step.
        """
        last: dict[int, int] = {}
        for number, operation in enumerate(self.operations, 1):
            used: list[_Slot] = []
            _map_objects((operation.args, operation.kwargs), _Slot, used.append)
            last |= dict.fromkeys([*operation.makes, *(slot.number for slot in used)], number)
        for kept in (self.loss, *self.gradients.values()):
            last.pop(getattr(kept, "number", -1), None)
        by_operation: dict[int, list[int]] = {}
        for slot, number in last.items():
            by_operation.setdefault(number, []).append(slot)
        return by_operation


def record_tape(loss: Callable[[], Any], parameters: Mapping[str, Any]) -> Tape:
    """Record the tape of one forward pass, run by `loss`, and one backward pass.

    Values that an operation took from the host, such as a number that Keras turned into a tensor, stay constant; so do
    numbers that the host read back.
    """
    import torch

    tape = Tape()
    recorder = _Recorder(tape)

    def note(name: str, parameter: Any) -> None:
        tape.ready_at[name] = len(tape.operations)
        tape.gradients[name] = recorder.slot_of(parameter.grad)

    for weight in parameters.values():
        weight.grad = None
    hooks = [weight.register_post_accumulate_grad_hook(partial(note, name)) for name, weight in parameters.items()]
    try:
        # Run the backward pass in this thread, so that the order of operations is deterministic.
        with recorder.mode(), torch.autograd.set_multithreading_enabled(False):
            value = loss()
            tape.loss_at, tape.loss = len(tape.operations), recorder.slot_of(value)
            value.backward()
    finally:
        for hook in hooks:
            hook.remove()
    return tape


class _Recorder:
    """Records operations on a tape, and the slot of each tensor.

    A tensor is identified by its storage and its position in it, because autograd returns saved results as other
    objects. The slot at a position is that of the last tensor created there.
    """

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._slots: dict[Any, _Slot] = {}
        self._storages: list[Any] = []  # weak references keep each storage's identity from being reused
        self._count = 0

    def mode(self) -> AbstractContextManager[Any]:
        from torch.utils._python_dispatch import TorchDispatchMode

        recorder = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                result = function(*args, **(kwargs or {}))
                recorder.note(function, args, kwargs or {}, result)
                return result

        return Mode()

    def slot_of(self, tensor: Any) -> Any:
        """Return the tensor's slot, or the tensor itself if no operation created it."""
        return self._slots.get(_place(tensor), tensor)

    def note(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        import torch

        tensors = _tensors(result)
        if not tensors or function is torch.ops.aten.lift_fresh.default or _only_from_host(args, kwargs, tensors):
            return  # its result stays constant
        known_args, known_kwargs = _map_objects((args, kwargs), torch.Tensor, self.slot_of)
        slots = tuple(self._new_slot(tensor) for tensor in tensors)
        self._tape.operations.append(_Operation(function, known_args, known_kwargs, slots))

    def _new_slot(self, tensor: Any) -> int:
        from torch.multiprocessing.reductions import StorageWeakRef

        slot = _Slot(self._count)
        self._slots[_place(tensor)] = slot
        self._storages.append(StorageWeakRef(tensor.untyped_storage()))
        self._count += 1
        return slot.number


def _place(tensor: Any) -> Any:
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype


def _only_from_host(args: Any, kwargs: Any, made: list[Any]) -> bool:
    """Whether an operation only copies from the host to a device, which cannot be captured."""
    import torch

    inputs: list[Any] = []
    _map_objects((args, kwargs), torch.Tensor, inputs.append)
    return (
        bool(inputs)
        and all(tensor.device.type == "cpu" for tensor in inputs)
        and any(tensor.device.type != "cpu" for tensor in made)
    )


def _tensors(result: Any) -> list[Any]:
    """Return the tensors in an operation's result, in order."""
    import torch

    tensors: list[Any] = []
    _map_objects(result, torch.Tensor, tensors.append)
    return tensors


def _map_objects(value: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    """Return `value` with `function` applied to each object of `kind` in its tuples, lists and dictionaries."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, tuple | list):
        return type(value)([_map_objects(item, kind, function) for item in value])
    if isinstance(value, dict):
        return {name: _map_objects(item, kind, function) for name, item in value.items()}
    return value
