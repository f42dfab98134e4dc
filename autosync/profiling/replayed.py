"""Passes run from a tape, without the overhead of Keras, autograd and Python: on a GPU as one CUDA graph."""

from typing import Any

from autosync.errors import ModelError
from autosync.profiling.passes import CudaClock, HostClock, Marks, PassTimes, medians
from autosync.profiling.tape import Tape

FIRST_RUNS = 3
"""Runs of a tape before its capture, in which libraries choose their kernels and allocate their memory."""


def time_replay(tape: Tape, warmup: int, steps: int) -> PassTimes:
    """Return the medians over `steps` runs of `tape` on this machine's CPUs, after `warmup` more."""
    import torch

    clock, marks = HostClock(), []
    with torch.no_grad():
        for step in range(warmup + steps):
            at = dict[int, float]()
            tape.run(lambda done, at=at: at.update({done: clock.mark()}))  # type: ignore[misc]
            if step >= warmup:
                marks.append(_marks(tape, at))
    return medians(marks, clock)


def time_cuda_graph(tape: Tape, warmup: int, steps: int) -> PassTimes:
    """Return the medians over `steps` runs of `tape` as a CUDA graph, after `warmup` more.

    Times come from events among the graph's kernels. Raises `ModelError` for a tape that cannot be captured.
    """
    import torch

    wanted = {0, tape.loss_at, *tape.ready_at.values()}
    try:
        events = {done: torch.cuda.Event(enable_timing=True, external=True) for done in wanted}
        graph = _capture_graph(tape, events)
    except (RuntimeError, TypeError) as error:  # before PyTorch 2.8, events in a graph could not be timed
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ModelError(f"A step must be captured as a CUDA graph, but {reason}; pass --eager.") from error
    clock, passes = CudaClock(), []
    for step in range(warmup + steps):
        graph.replay()
        clock.settle()  # wait, because the next run records the same events again
        if step >= warmup:
            passes.append(_marks(tape, events).passes(clock))
    return PassTimes.median(passes)


def _capture_graph(tape: Tape, events: dict[int, Any]) -> Any:
    import torch

    def record_event(done: int) -> None:
        if done in events:
            events[done].record()

    side_stream = torch.cuda.Stream()
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side_stream):
        for _ in range(FIRST_RUNS):
            tape.run()
    torch.cuda.current_stream().wait_stream(side_stream)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        tape.run(record_event)
    return graph


def _marks(tape: Tape, at: dict[int, Any]) -> Marks:
    return Marks(at[0], at[tape.loss_at], {name: at[done] for name, done in tape.ready_at.items()})
