"""Reads of parameters in a forward pass: the time of the first read of each parameter, and each use of tied tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar, final

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

LOOKUPS = ("EmbeddingBackward0", "EmbeddingBagBackward0")
"""The nodes of autograd whose gradients have looked-up rows only."""

_Moment = tuple[int, float]
"""The number of autograd's next node, and a processor time in seconds."""


@dataclass
class MeasuredUse:
    """An operation that reads a parameter, in one step."""

    read: float
    """Seconds from the beginning of the forward pass to the operation."""
    rows: int | None
    """Distinct rows that an embedding looks up; None for an operation on the whole parameter."""
    ready_at: float = 0.0
    """Processor time at which the backward pass has computed the operation's part of the gradient."""


def parts_of(module: nn.Module) -> Iterator[tuple[str, nn.Module, list[nn.Parameter]]]:
    """Names, modules and parameters of all parts that have parameters of their own.

    A compiled module counts as one part with all its parameters: hooks inside would cut its graph.
    """
    compiled: list[str] = []
    for name, part in module.named_modules():
        if any(name.startswith(prefix) for prefix in compiled):
            continue
        if is_compiled(part):
            compiled.append(f"{name}." if name else "")
        parameters = list(part.parameters(recurse=is_compiled(part)))
        if parameters:
            yield name, part, parameters


def is_compiled(part: nn.Module) -> bool:
    """Whether `torch.compile` made the module; its class would have to be imported with the compiler."""
    return isinstance(getattr(part, "_orig_mod", None), nn.Module)


@final
class ForwardReads:
    """A block around a forward pass that notes when each parameter is read.

    A module reads its own parameters when it is called, and a function reads those among its arguments, such as
    `F.linear(x, self.table.weight)`. A parameter without any such read counts as read at the beginning. Functions
    inside compiled modules cannot be seen, so the calls of modules alone count if there are compiled modules.
    """

    def __init__(self, module: nn.Module, parameters: Iterable[nn.Parameter]) -> None:
        self._parts = list(parts_of(module))
        self._sees_functions = not any(is_compiled(part) for part in module.modules())
        self._calls: dict[nn.Parameter, list[_Moment]] = {parameter: [] for parameter in parameters}
        """Per parameter, the beginning of each call that reads it, in seconds from the beginning of the pass."""

    def __enter__(self) -> ForwardReads:
        self._stack = ExitStack()
        for _, part, parameters in self._parts:
            self._stack.callback(part.register_forward_pre_hook(self._noting(parameters)).remove)
        if self._sees_functions:
            self._stack.enter_context(_FunctionReads(self._note))
        self._began = time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def first(self, parameter: nn.Parameter) -> float:
        """Seconds from the beginning of the pass to the first read of `parameter`."""
        return self._calls[parameter][0][1] if self._calls[parameter] else 0.0

    def uses(self, loss: torch.Tensor) -> dict[nn.Parameter, list[MeasuredUse]]:
        """The uses of all parameters that `loss` looks up and also reads otherwise, in the order of the forward pass.

        The backward pass fills in when their gradients are ready. A use is an edge of autograd's graph to a parameter.
        """
        if not self._sees_functions:
            return {}
        readers: dict[nn.Parameter, list[Any]] = {}
        for node, parameter in _edges(loss):
            if parameter in self._calls:
                readers.setdefault(parameter, []).append(node)
        return {
            parameter: [self._use(parameter, node) for node in sorted(nodes, key=lambda node: node._sequence_nr())]
            for parameter, nodes in readers.items()
            if len(nodes) > 1 and any(node.name() in LOOKUPS for node in nodes)
        }

    def _use(self, parameter: nn.Parameter, node: Any) -> MeasuredUse:
        times = [seconds for number, seconds in self._calls[parameter] if number <= node._sequence_nr()]
        rows = int(node._saved_indices.unique().numel()) if node.name() in LOOKUPS else None
        use = MeasuredUse(times[-1] if times else 0.0, rows)

        def note(*_: object) -> None:
            use.ready_at = time.process_time()

        node.register_hook(note)
        return use

    def _noting(self, parameters: Sequence[nn.Parameter]) -> Callable[[nn.Module, Any], None]:
        def note(_module: nn.Module, _inputs: Any) -> None:
            self._note(parameters, _now())

        return note

    def _note(self, parameters: Iterable[nn.Parameter], moment: _Moment) -> None:
        for parameter in parameters:
            if parameter in self._calls:
                self._calls[parameter].append((moment[0], moment[1] - self._began))


def _now() -> _Moment:
    return torch.autograd._get_sequence_nr(), time.process_time()  # type: ignore[attr-defined]


@final
class _FunctionReads(TorchFunctionMode):
    """Calls `note` with the parameters among the arguments of each PyTorch function that returns tensors."""

    def __init__(self, note: Callable[[Iterable[nn.Parameter], _Moment], None]) -> None:
        super().__init__()
        self._note = note

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        del types
        kwargs = kwargs or {}
        moment = _now()
        result = func(*args, **kwargs)
        if next(_leaves(result, torch.Tensor), None) is not None:  # a shape or a dtype is no read
            self._note(_leaves((args, kwargs), nn.Parameter), moment)
        return result


LeafT = TypeVar("LeafT")


def _leaves(structure: Any, kind: type[LeafT]) -> Iterator[LeafT]:
    """The objects of class `kind` in a structure of tuples, lists and dicts."""
    if isinstance(structure, kind):
        yield structure
    elif isinstance(structure, tuple | list):
        for item in structure:
            yield from _leaves(item, kind)
    elif isinstance(structure, Mapping):
        yield from _leaves(list(structure.values()), kind)


def _edges(loss: torch.Tensor) -> Iterator[tuple[Any, nn.Parameter]]:
    """The nodes of autograd that give gradients straight to a leaf, each with the leaf."""
    waiting, seen = [loss.grad_fn], set[Any]()
    while waiting:
        node = waiting.pop()
        if node in seen or node is None:
            continue
        seen.add(node)
        next_nodes: list[Any] = [receiver for receiver, _ in node.next_functions]
        for receiver in next_nodes:
            if hasattr(receiver, "variable"):
                yield node, receiver.variable
            else:
                waiting.append(receiver)
