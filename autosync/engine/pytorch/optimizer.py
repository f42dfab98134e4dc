"""Facts about a PyTorch optimizer: whether it needs a closure, and whether it updates parameters or elements alone."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

SHAPE, HALF = (5, 6), 15
"""A matrix, and half of its elements: the halves part in the middle of a row."""

SCALES = (1.0, 1e-3, 1e3)
"""Gradients of the test's steps are this large, because a clipped norm changes only large gradients."""

TOLERANCE = 1e-12
"""Float64 instructions for many elements at once may round otherwise than those for a single element."""


def needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step calls back to compute the loss again, as in LBFGS."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def is_elementwise(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the update of an element depends on that element alone, so that spans can be updated apart.

    Tested by three steps on a matrix and on its two flat halves, with the settings of every parameter group. An
    optimizer that cannot be made again from its class and settings counts as not elementwise.
    """
    with torch.random.fork_rng(devices=[]):
        return all(_is_elementwise(optimizer, settings) for settings in settings_of(optimizer))


def is_separable(optimizer: torch.optim.Optimizer) -> bool:
    """Whether parameters can be updated one after the other: the update of a parameter depends on that parameter alone.

    Tested by three steps on two matrices, together and apart, with the settings of every parameter group. An optimizer
    that cannot be made again from its class and settings counts as not separable.
    """
    with torch.random.fork_rng(devices=[]):
        return all(_is_separable(optimizer, settings) for settings in settings_of(optimizer))


def settings_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """The settings of each parameter group, as they are now."""
    return [
        {
            name: value.clone() if isinstance(value, torch.Tensor) else value
            for name, value in group.items()
            if name != "params"
        }
        for group in optimizer.param_groups
    ]


@contextmanager
def updates_only(
    optimizer: torch.optim.Optimizer, parameters: Iterable[nn.Parameter], settings: Sequence[Mapping[str, Any]]
) -> Iterator[Callable[[], object]]:
    """A block in which the yielded function updates these parameters alone, with the `settings` of each group, and
    calls no hooks of the optimizer's step."""
    step, wanted = type(optimizer).step, set(parameters)
    if getattr(step, "hooked", False):
        step = inspect.unwrap(step, stop=lambda function: not getattr(function, "hooked", False))
    before = [dict(group) for group in optimizer.param_groups]
    for group, of_group in zip(optimizer.param_groups, settings, strict=False):  # the user may have added a group
        group.update(of_group, params=[parameter for parameter in group["params"] if parameter in wanted])
    for group in optimizer.param_groups[len(settings) :]:
        group["params"] = []
    try:
        yield partial(step, optimizer)
    finally:
        for group, of_group in zip(optimizer.param_groups, before, strict=True):
            group.clear()
            group.update(of_group)


def remade(
    optimizer: torch.optim.Optimizer, groups: Sequence[tuple[Mapping[str, Any], Sequence[nn.Parameter]]]
) -> torch.optim.Optimizer:
    """An optimizer of the same class for other parameters, with the settings given for each group and no state.

    A constructor that takes more than parameters and defaults raises its own error.
    """
    accepted = inspect.signature(type(optimizer)).parameters
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in accepted.values())
    defaults = {name: value for name, value in optimizer.defaults.items() if takes_any or name in accepted}
    make: Any = type(optimizer)
    twin: torch.optim.Optimizer = make(
        [{**settings, "params": list(parameters)} for settings, parameters in groups], **copy.deepcopy(defaults)
    )
    return twin


def _is_separable(optimizer: torch.optim.Optimizer, settings: dict[str, Any]) -> bool:
    generator = torch.Generator().manual_seed(0)
    shapes = SHAPE, SHAPE[::-1]
    starts = [torch.randn(shape, dtype=torch.float64, generator=generator) for shape in shapes]
    settings = _with_rate(settings)
    together, apart = ([nn.Parameter(start.clone()) for start in starts] for _ in range(2))
    try:
        first, second = (remade(optimizer, [(settings, parameters)]) for parameters in (together, apart))
        for scale in SCALES:
            for pair in zip(together, apart, strict=True):
                gradient = torch.randn(pair[0].shape, dtype=torch.float64, generator=generator) * scale
                for parameter in pair:
                    parameter.grad = gradient.clone()
            first.step()
            for parameter in reversed(apart):
                with updates_only(second, [parameter], settings_of(second)) as update:
                    update()
    except Exception:  # an optimizer may raise anything, e.g. because it takes matrices only
        return False
    return all(map(torch.equal, together, apart))


def _with_rate(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an optimizer's settings with a learning rate above 0: a schedule may start at 0, and then any update
    looks as if it were alone."""
    copied = copy.deepcopy(dict(settings))
    if not copied.get("lr", 1.0):
        copied["lr"] = 0.01
    return copied


def _is_elementwise(optimizer: torch.optim.Optimizer, settings: dict[str, Any]) -> bool:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(SHAPE, dtype=torch.float64, generator=generator)
    gradients = [torch.randn(SHAPE, dtype=torch.float64, generator=generator) * scale for scale in SCALES]
    settings = _with_rate(settings)
    whole = nn.Parameter(start)
    halves = [nn.Parameter(half.clone()) for half in start.flatten().split(HALF)]
    try:
        optimizers = [remade(optimizer, [(settings, [parameter])]) for parameter in (whole, *halves)]
        for gradient in gradients:
            whole.grad = gradient.clone()
            for half, part in zip(halves, gradient.flatten().split(HALF), strict=True):
                half.grad = part.clone()
            for twin in optimizers:
                twin.step()
    except Exception:  # an optimizer may raise anything, e.g. because it takes matrices only
        return False
    joined = torch.cat([half.detach() for half in halves])
    return torch.allclose(whole.detach().flatten(), joined, rtol=TOLERANCE, atol=TOLERANCE)
