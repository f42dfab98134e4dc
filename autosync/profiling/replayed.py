"""Passes as a tape has them, without what Keras, autograd and Python take: on a GPU as one CUDA graph."""

from typing import Any

from autosync.errors import ModelError
from autosync.profiling.passes import CudaClock, HostClock, Marks, Passes, medians
from autosync.profiling.tape import Tape

FIRST_RUNS = 3
"""Runs of a tape before it is captured, in which libraries choose their kernels and take their memory."""


def replayed_passes(tape: Tape, warmup: int, steps: int) -> Passes:
    """Medians over `steps` runs of `tape` on this machine's processors, after `warmup` more."""
    import torch

    clock, marks = HostClock(), []
    with torch.no_grad():
        for step in range(warmup + steps):
            at = dict[int, float]()
            tape.run(lambda done, at=at: at.update({done: clock.mark()}))  # type: ignore[misc]
            if step >= warmup:
                marks.append(_marks(tape, at))
    return medians(marks, clock)


def graphed_passes(tape: Tape, warmup: int, steps: int) -> Passes:
    """Medians over `steps` runs of `tape` as a CUDA graph, after `warmup` more.

    Its moments are events among the graph's kernels. Raises `ModelError` for a tape that cannot be captured.
    """
    import torch

    wanted = {0, tape.loss_at, *tape.ready_at.values()}
    try:
        events = {done: torch.cuda.Event(enable_timing=True, external=True) for done in wanted}
        graph = _captured(tape, events)
    except (RuntimeError, TypeError) as error:  # before PyTorch 2.8 no event of a graph could be told
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ModelError(f"A step must be captured as a CUDA graph, but {reason}; ask for --eager.") from error
    clock, passes = CudaClock(), []
    for step in range(warmup + steps):
        graph.replay()
        clock.settle()  # the events are the same ones in every run
        if step >= warmup:
            passes.append(_marks(tape, events).passes(clock))
    return Passes.median(passes)


def _captured(tape: Tape, events: dict[int, Any]) -> Any:
    import torch

    def reached(done: int) -> None:
        if done in events:
            events[done].record()

    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(beside):
        for _ in range(FIRST_RUNS):
            tape.run()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        tape.run(reached)
    return graph


def _marks(tape: Tape, at: dict[int, Any]) -> Marks:
    return Marks(at[0], at[tape.loss_at], {name: at[done] for name, done in tape.ready_at.items()})
