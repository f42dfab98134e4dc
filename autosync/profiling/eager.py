"""Passes as Keras and PyTorch run them, where the host starts each operation in turn."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from autosync.profiling.passes import Marks, PassClock, PassTimes, medians


def time_eager(
    loss: Callable[[], Any], parameters: Mapping[str, Any], clock: PassClock, warmup: int, steps: int
) -> PassTimes:
    """Return the medians over `steps` forward and backward passes, after `warmup` more.

    `loss` runs a forward pass. `parameters` are torch's by the names of variables; their gradients are dropped between
    steps (set to None), so that each pass creates its own. There is no wait for the device between steps, as in
    training, where the host runs ahead of the device.
    """
    ready: dict[str, Any] = {}

    def note(name: str, _: Any) -> None:
        ready[name] = clock.mark()

    hooks = [
        parameter.register_post_accumulate_grad_hook(partial(note, name)) for name, parameter in parameters.items()
    ]
    marks: list[Marks] = []
    try:
        for step in range(warmup + steps):
            for parameter in parameters.values():
                parameter.grad = None
            ready = {}
            begin = clock.mark()
            value = loss()
            loss_mark = clock.mark()
            value.backward()
            if step >= warmup:
                marks.append(Marks(begin, loss_mark, ready))
        clock.settle()
    finally:
        for hook in hooks:
            hook.remove()
    return medians(marks, clock)
