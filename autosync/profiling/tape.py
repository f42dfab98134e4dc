"""A step on tape: every operation that PyTorch ran in it, to be run again without Keras and without autograd.

Keras and Python take longer to start operations than a fast GPU takes to carry them out, so passes that the host starts
one operation after another are the host's, not the GPU's. A tape can be captured as a CUDA graph, which the GPU works
through by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any


@dataclass(frozen=True)
class _Slot:
    """Stands for a tensor that an operation of the tape makes anew."""

    number: int


@dataclass(frozen=True)
class _Operation:
    """`function(*args, **kwargs)`, with slots in place of what earlier operations made; `makes[i]` is the slot of its
    i-th tensor."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    makes: tuple[int, ...]


@dataclass
class Tape:
    """The operations of a forward and a backward pass, in the order in which they ran.

    The first `loss_at` of them are the forward pass; the gradient of variable v was there after `ready_at[v]` of them.
    """

    operations: list[_Operation] = field(default_factory=list)
    loss_at: int = 0
    ready_at: dict[str, int] = field(default_factory=dict)
    loss: Any = None
    gradients: dict[str, Any] = field(default_factory=dict)

    def run(self, reached: Callable[[int], None] = lambda _: None) -> Callable[[Any], Any]:
        """Run all operations again, on the same parameters and inputs; `reached` is told how many have run, from 0 on.

        Returns what finds the new tensor for `loss` or one of `gradients`.
        """
        last = self._last_uses()
        made: dict[int, Any] = {}
        reached(0)
        for number, each in enumerate(self.operations, 1):
            args, kwargs = _mapped((each.args, each.kwargs), _Slot, lambda slot: made[slot.number])
            tensors = _tensors(each.function(*args, **kwargs))
            made.update(zip(each.makes, tensors, strict=True))
            for slot in last.get(number, ()):
                del made[slot]
            reached(number)
        return lambda slot: made[slot.number] if isinstance(slot, _Slot) else slot

    def _last_uses(self) -> dict[int, list[int]]:
        """Slots by the operation after which nothing needs them, so that memory is as much as a real step's."""
        last: dict[int, int] = {}
        for number, each in enumerate(self.operations, 1):
            used: list[_Slot] = []
            _mapped((each.args, each.kwargs), _Slot, used.append)
            last |= dict.fromkeys([*each.makes, *(slot.number for slot in used)], number)
        for kept in (self.loss, *self.gradients.values()):
            last.pop(getattr(kept, "number", -1), None)
        found: dict[int, list[int]] = {}
        for slot, number in last.items():
            found.setdefault(number, []).append(slot)
        return found


def taped(loss: Callable[[], Any], parameters: Mapping[str, Any]) -> Tape:
    """The tape of one forward pass, which `loss` makes, and one backward pass.

    What an operation took from the host, such as a number that Keras made a tensor of, stays what it was; so do
    numbers that the host read back.
    """
    import torch

    tape = Tape()
    recorder = _Recorder(tape)

    def note(name: str, parameter: Any) -> None:
        tape.ready_at[name] = len(tape.operations)
        tape.gradients[name] = recorder.slot_of(parameter.grad)

    for each in parameters.values():
        each.grad = None
    hooks = [each.register_post_accumulate_grad_hook(partial(note, name)) for name, each in parameters.items()]
    try:
        # In this thread alone, so that the order of operations is one.
        with recorder.mode(), torch.autograd.set_multithreading_enabled(False):
            value = loss()
            tape.loss_at, tape.loss = len(tape.operations), recorder.slot_of(value)
            value.backward()
    finally:
        for hook in hooks:
            hook.remove()
    return tape


class _Recorder:
    """Notes each operation on a tape, and by which slot a tensor is known.

    A tensor is known by the storage that it lies in, and where: autograd hands saved results back as other objects.
    What lies there is what was made there last.
    """

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._slots: dict[Any, _Slot] = {}
        self._storages: list[Any] = []  # weak references, which keep memory of its own for each storage's identity
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
        """The slot that `tensor` is known by, or itself where no operation made it."""
        return self._slots.get(_place(tensor), tensor)

    def note(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        import torch

        tensors = _tensors(result)
        if not tensors or function is torch.ops.aten.lift_fresh.default or _only_from_host(args, kwargs, tensors):
            return  # what it gave is not made again
        known_args, known_kwargs = _mapped((args, kwargs), torch.Tensor, self.slot_of)
        slots = tuple(self._new_slot(each) for each in tensors)
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
    """Whether an operation copies from the host to a device, which cannot be captured."""
    import torch

    given: list[Any] = []
    _mapped((args, kwargs), torch.Tensor, given.append)
    return (
        bool(given)
        and all(each.device.type == "cpu" for each in given)
        and any(each.device.type != "cpu" for each in made)
    )


def _tensors(result: Any) -> list[Any]:
    """The tensors in what an operation returned, in order."""
    import torch

    found: list[Any] = []
    _mapped(result, torch.Tensor, found.append)
    return found


def _mapped(value: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    """`value` with each object of `kind` in its tuples, lists and dictionaries replaced by what `function` returns."""
    if isinstance(value, kind):
        return function(value)
    if isinstance(value, tuple | list):
        return type(value)([_mapped(each, kind, function) for each in value])
    if isinstance(value, dict):
        return {name: _mapped(each, kind, function) for name, each in value.items()}
    return value
