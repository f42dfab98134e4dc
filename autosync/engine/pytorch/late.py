"""Parameters whose new values are still on their way: the first operation that reads a parameter waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn

from autosync.engine.pytorch.reads import is_compiled
from autosync.errors import SpecError

READ_GRADIENT = getattr(torch.Tensor, "grad").__get__  # noqa: B009 - a descriptor, which its annotation hides

ABOUT_THE_TENSOR = frozenset(
    {
        READ_GRADIENT,
        getattr(torch.Tensor, "grad").__set__,  # noqa: B009
        *(
            getattr(torch.Tensor, name).__get__
            for name in ("shape", "dtype", "device", "requires_grad", "is_leaf", "ndim")
        ),
        torch.Tensor.size,
        torch.Tensor.dim,
        torch.Tensor.numel,
    }
)
"""Operations that read no values. `zero_grad`, for example, reads `grad` only."""


def _nothing() -> None:
    """Do nothing."""


class LateParameter(nn.Parameter):
    """The class of a parameter while its values are late.

    PyTorch calls `__torch_function__` before any operation on the parameter, in any module or script, so no read
    can be missed. Modules with lazily made parameters change the class of a parameter in the same way.
    """

    _values_arrive: Callable[[], None]
    _before_gradient: Callable[[], None]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in ABOUT_THE_TENSOR:
            if func == READ_GRADIENT:
                args[0]._before_gradient()
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        for parameter in _late((args, kwargs)):
            expect(parameter)
        return func(*args, **kwargs)


def make_late(
    parameter: nn.Parameter, arrive: Callable[[], None], before_gradient: Callable[[], None] = _nothing
) -> bool:
    """Have the next read of the parameter's values call `arrive` first, and reads of `grad` until then call
    `before_gradient`. Returns False for a class of parameter of a user's own, whose class must not change."""
    if type(parameter) is not nn.Parameter:
        return False
    parameter._values_arrive = arrive  # type: ignore[attr-defined]
    parameter._before_gradient = before_gradient  # type: ignore[attr-defined]
    parameter.__class__ = LateParameter
    return True


def make_plain(parameter: nn.Parameter) -> Callable[[], None]:
    """Give a late parameter its usual class back; return the function that waits for its values."""
    assert isinstance(parameter, LateParameter)
    arrive = parameter._values_arrive
    del parameter._values_arrive, parameter._before_gradient
    parameter.__class__ = nn.Parameter  # type: ignore[assignment]
    return arrive


def check_reads_are_seen(module: nn.Module) -> None:
    """Raise `SpecError` for a compiled module, whose reads of late parameters PyTorch does not announce."""
    if any(is_compiled(part) for part in module.modules()):
        raise SpecError(
            "A module compiled by torch.compile cannot wait for single parameters; set overlap_next_forward to false, "
            "or leave the module uncompiled."
        )


def expect(parameter: nn.Parameter) -> None:
    """Wait for the values of a parameter if they are late."""
    if isinstance(parameter, LateParameter):
        make_plain(parameter)()


def _late(structure: Any) -> Iterator[LateParameter]:
    """The late parameters in nested arguments of an operation."""
    if isinstance(structure, LateParameter):
        yield structure
    elif isinstance(structure, list | tuple | dict):
        items: Iterable[Any] = structure.values() if isinstance(structure, dict) else structure
        for item in items:
            yield from _late(item)
