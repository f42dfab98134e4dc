"""Passes as Keras and PyTorch run them, each operation started by the host when its turn comes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from autosync.profiling.passes import Clock, Marks, Passes, medians


def eager_passes(
    loss: Callable[[], Any], parameters: Mapping[str, Any], clock: Clock, warmup: int, steps: int
) -> Passes:
    """Medians over `steps` forward and backward passes, after `warmup` more.

    `loss` makes a forward pass. `parameters` are torch's by the names of variables; their gradients are dropped
    between steps (set to None), so that each pass makes its own. The device is not waited for between steps, as in
    training, where the host is ahead of it.
    """
    ready: dict[str, Any] = {}

    def note(name: str, _: Any) -> None:
        ready[name] = clock.mark()

    hooks = [each.register_post_accumulate_grad_hook(partial(note, name)) for name, each in parameters.items()]
    marks: list[Marks] = []
    try:
        for step in range(warmup + steps):
            for each in parameters.values():
                each.grad = None
            ready = {}
            begin = clock.mark()
            value = loss()
            made = clock.mark()
            value.backward()
            if step >= warmup:
                marks.append(Marks(begin, made, ready))
        clock.settle()
    finally:
        for hook in hooks:
            hook.remove()
    return medians(marks, clock)
