"""The step that checks a task before it is captured: each gradient arrives once, and the optimizer takes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from autosync.engine.pytorch.factors import FactorTaps, layers_with_factors
from autosync.engine.pytorch.task import ModuleTask
from autosync.errors import ModelError


@dataclass
class CheckedStep:
    """The findings of a step."""

    rows: dict[str, int | None] = field(default_factory=dict)
    """By parameter, in the order of the gradients, the rows of a sparse gradient, or None for a dense one."""
    factor_rows: dict[str, int] = field(default_factory=dict)
    """By parameter, the rows K of the sufficient factors of its gradient, if it has factors."""
    slots: int = 0
    """Arrays of a parameter's size that the optimizer keeps."""
    updates_early: bool = True
    """Whether parameters can be updated in the backward pass, each as soon as its gradient is complete."""


def check_step(task: ModuleTask, again: Callable[[], ModuleTask]) -> CheckedStep:
    """Take a step with `task`, whose module and optimizer cannot be used afterwards.

    The step updates each parameter as soon as its gradient is complete, and then fills it with NaN: a later gradient
    that reads the parameter's value, as that of `x * w.detach()` does, is NaN. In that case, or if the step fails, a
    step of the task that `again` returns updates all parameters at its end. Raises `ModelError` if it fails, too.
    """
    try:
        checked, is_finite = _step(task, is_early=True)
        if is_finite:
            return checked
    except Exception:  # the step that updates at its end finds the reason
        pass
    try:
        checked, _ = _step(again(), is_early=False)
    except ModelError:
        raise
    except Exception as error:  # a user's module may raise any error on its batch
        raise ModelError(f"A step of {task.name!r} failed with {type(error).__name__}: {error}.") from error
    checked.updates_early = False
    return checked


def _step(task: ModuleTask, is_early: bool) -> tuple[CheckedStep, bool]:
    """Take a step; return its findings, and whether all gradients are finite."""
    checked, are_finite = CheckedStep(), list[bool]()
    names = {parameter: name for name, parameter in task.parameters.items()}

    def on_gradient(parameter: nn.Parameter) -> None:
        name, gradient = names[parameter], parameter.grad
        assert gradient is not None
        if name in checked.rows:
            raise ModelError(
                f"Parameter {name!r} of {task.name!r} gets its gradient twice in one backward pass, as reentrant "
                "checkpointing does; use torch.utils.checkpoint with use_reentrant=False."
            )
        coalesced = gradient.coalesce() if gradient.is_sparse else None
        if parameter in taps.weights:
            pair = taps.take(parameter)
            if len(pair.left) and pair.stands_for(gradient):
                checked.factor_rows[name] = len(pair.left)
        checked.rows[name] = None if coalesced is None else int(coalesced.indices().shape[1])
        if is_early:
            are_finite.append(bool((gradient if coalesced is None else coalesced.values()).isfinite().all()))
            task.optimizer.step()  # the other parameters have no gradient
            checked.slots = max(checked.slots, _slots(task.optimizer, parameter))
            task.optimizer.state.pop(parameter, None)  # this line and the next free memory of the parameter's size
            parameter.grad = None
            parameter.data.fill_(torch.nan)

    taps = FactorTaps(task.module, layers_with_factors(task.module))
    task.optimizer.zero_grad()
    versions = {parameter: parameter._version for parameter in names}
    loss = task.loss_on(task.batch_of(0))
    _check_loss(task.name, loss)
    changed = [name for parameter, name in names.items() if parameter._version != versions[parameter]]
    if changed:
        raise ModelError(
            f"The forward pass of {task.name!r} changes parameter {changed[0]!r}, as an embedding with max_norm does, "
            "so replicas with different batches would drift apart; change parameters after a step only."
        )
    handles = [parameter.register_post_accumulate_grad_hook(on_gradient) for parameter in names]
    try:
        loss.backward()
    finally:
        for handle in handles:
            handle.remove()
        taps.remove()
    missing = [name for name in names.values() if name not in checked.rows]
    if missing:
        raise ModelError(
            f"Model {task.name!r}: {len(missing)} parameters get no gradient, such as {missing[0]!r}; freeze them with "
            "requires_grad_(False)."
        )
    if not is_early:
        task.optimizer.step()
        checked.slots = max((_slots(task.optimizer, parameter) for parameter in names), default=0)
    return checked, all(are_finite)


def _check_loss(name: str, loss: Any) -> None:
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        raise ModelError(f"The loss of {name!r} must be a scalar tensor, the mean over the batch.")
    if not loss.requires_grad:
        raise ModelError(f"The loss of {name!r} depends on no trainable parameter; check the module and the loss.")
    if not bool(torch.isfinite(loss)):
        raise ModelError(f"The loss of {name!r} is {loss.item()} on the example batch; it must be finite.")


def _slots(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> int:
    """Arrays of the parameter's size in the optimizer's state after a step."""
    arrays = [item for item in optimizer.state[parameter].values() if isinstance(item, torch.Tensor) and item.ndim]
    return sum(array.shape == parameter.shape for array in arrays)
