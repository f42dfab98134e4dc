"""Reads a trace of PyTorch's profiler (Kineto), and computes the profile of a replica's passes from it.

The trace has the host's operations, and on a GPU the kernels that they launch. Autograd runs the operation
AccumulateGrad for each parameter as soon as the parameter's gradient is complete. The function that autograd runs
before it computes the last part of this gradient, and has the sequence number of the first forward operation that reads
the parameter.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from typing import Any

from autosync.errors import SpecError
from autosync.spec import DeviceProfile, ModelSpec, ReadLimits, parse_json, read_bytes

TRACE = ReadLimits(size=512 << 20, values=60_000_000)
"""Limits of a trace. A step of a large model has some ten thousand events of twenty values."""

GRADIENT = "torch::autograd::AccumulateGrad"
AUTOGRAD = "autograd::engine::evaluate_function: "
STEP = "ProfilerStep#"
KERNELS = frozenset({"kernel", "gpu_memset"})
LAUNCHES = frozenset({"cuda_runtime", "cuda_driver"})
SHOWN = (
    "record the trace with torch.profiler.profile(record_shapes=True, schedule=torch.profiler.schedule(wait=0, "
    "warmup=1, active=5, repeat=1)), and call its step() after every step"
)


@dataclass(frozen=True)
class Event:
    """An operation of the trace, in seconds."""

    name: str
    kind: str
    begin: float
    end: float
    arguments: dict[str, Any]


@dataclass(frozen=True)
class TracedStep:
    """The times of a step in seconds, by the number of a gradient in the order in which gradients became ready."""

    forward: float
    shapes: tuple[tuple[int, ...] | None, ...]
    ready: tuple[float, ...]
    """Seconds from the start of the backward pass."""
    read: tuple[float | None, ...]
    """Seconds from the start of the forward pass to the first read of the parameter, where the trace tells them."""


def profile_from_trace(file: Path, model: ModelSpec) -> DeviceProfile:
    """The profile of `model`, whose training steps are in the trace `file`, as JSON or compressed by gzip.

    Each figure is the median over the steps. Gradients belong to the variables in their order of readiness, and of
    their shapes. Raises `SpecError`.
    """
    what = f"Trace {str(file)!r}"
    document = parse_json(_text_of(file, what), what, limits=TRACE)
    events = sorted(_events(document, what), key=lambda event: event.begin)
    steps = [step for begin, end in _windows(events) if (step := _step_within(events, begin, end)) is not None]
    if not steps:
        raise SpecError(f"{what} has no training step with a backward pass; {SHOWN}.")
    matched = [_by_variable(step, model, what) for step in steps]
    names = [variable.name for variable in model.variables]
    reads = {name: [read[name] for _, read in matched] for name in names}
    known = {name: [time for time in times if time is not None] for name, times in reads.items()}
    ready = {name: median(times[name] for times, _ in matched) for name in names}
    forward = median(step.forward for step in steps)
    read = {name: min(forward, median(times)) for name, times in known.items() if times}
    return DeviceProfile(
        device=_device(document, events),
        versions=_versions(document),
        batch_size=model.batch_size,
        precision="as in the trace",
        date=_day(document, events),
        forward_seconds=forward,
        backward_seconds=max(ready.values()),
        ready_seconds=ready,
        read_seconds=read if len(read) == len(names) else None,
    )


def _text_of(file: Path, what: str) -> bytes:
    try:
        data = read_bytes(file, what, TRACE.size)
    except OSError as error:
        raise SpecError(f"{what} cannot be read: {error.strerror}; name a file.") from None
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        archive = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        text = archive.decompress(data, TRACE.size + 1)
    except zlib.error as error:
        raise SpecError(f"{what} is a damaged gzip archive ({error}); export the trace again.") from None
    if len(text) <= TRACE.size and not archive.eof:
        raise SpecError(f"{what} is a gzip archive without an end; export the trace again.")
    if len(text) > TRACE.size:
        raise SpecError(f"{what} must have at most {TRACE.size >> 20} MiB uncompressed; trace fewer steps.")
    return text


def _events(document: dict[str, Any], what: str) -> Iterator[Event]:
    listed = document.get("traceEvents")
    if not isinstance(listed, list):
        raise SpecError(f"{what} has no 'traceEvents', so PyTorch's profiler did not write it; {SHOWN}.")
    for item in listed:
        if not isinstance(item, dict) or item.get("ph") != "X":
            continue
        begin, length, arguments = item.get("ts"), item.get("dur"), item.get("args", {})
        if isinstance(begin, int | float) and isinstance(length, int | float) and isinstance(arguments, dict):
            name, kind = str(item.get("name")), str(item.get("cat"))
            yield Event(name, kind, begin * 1e-6, (begin + length) * 1e-6, arguments)


def _windows(events: Sequence[Event]) -> list[tuple[float, float]]:
    """The begin and end of each traced step on the host; of the whole trace if it marks no steps."""
    marked = [event for event in events if event.name.startswith(STEP) and event.kind == "user_annotation"]
    if not marked and events:
        return [(events[0].begin, max(event.end for event in events))]
    return [(event.begin, event.end) for event in marked]


def _step_within(events: Sequence[Event], begin: float, end: float) -> TracedStep | None:
    """The times of the step that the host runs from `begin` to `end`; None without a backward pass."""
    host = [event for event in events if event.kind == "cpu_op" and begin <= event.begin < end]
    backward = [event for event in host if event.name.startswith(AUTOGRAD)]
    gradients = [event for event in host if event.name == GRADIENT]
    recorded: dict[int, Event] = {}  # by sequence number, the first forward operation
    for event in host:
        number = event.arguments.get("Sequence number")
        if isinstance(number, int) and backward and event.begin < backward[0].begin:
            recorded.setdefault(number, event)
    if not gradients or not recorded:
        return None
    device = _Device.of(events, begin, end)
    start = device.start_after(min(event.begin for event in recorded.values()))
    loss = device.end_before(backward[0].begin, start)
    function, first_reads = None, list[float | None]()
    for event in sorted([*backward, *gradients], key=lambda event: event.begin):
        if event.name != GRADIENT:
            if not event.name.endswith(GRADIENT):
                function = event
            continue
        number = None if function is None else function.arguments.get("Sequence number")
        forward = recorded.get(number) if isinstance(number, int) else None
        first_reads.append(None if forward is None else max(0.0, device.start_after(forward.begin) - start))
    ready = [max(0.0, device.end_before(event.end, loss) - loss) for event in gradients]
    return TracedStep(loss - start, tuple(_shape(event) for event in gradients), tuple(ready), tuple(first_reads))


@dataclass(frozen=True)
class _Device:
    """The device's work in a step, in the order of its launches. Without a GPU, the host does the work itself."""

    launched: tuple[float, ...]
    begins: tuple[float, ...]
    ends: tuple[float, ...]

    @classmethod
    def of(cls, events: Sequence[Event], begin: float, end: float) -> _Device:
        """The kernels that the host launched from `begin` to `end`, without NCCL's."""
        launches = {
            event.arguments.get("correlation"): event.begin
            for event in events
            if event.kind in LAUNCHES and begin <= event.begin < end
        }
        kernels = sorted(
            (launches[event.arguments.get("correlation")], event.begin, event.end)
            for event in events
            if event.kind in KERNELS
            and event.arguments.get("correlation") in launches
            and not event.name.lower().startswith("nccl")
        )
        return cls(*zip(*kernels, strict=True)) if kernels else cls((), (), ())

    def start_after(self, moment: float) -> float:
        """The start of the work that the host launches at `moment` or later; `moment` itself on the host."""
        return next((begin for at, begin in zip(self.launched, self.begins, strict=True) if at >= moment), moment)

    def end_before(self, moment: float, least: float) -> float:
        """The end of all work that the host has launched before `moment`, at least `least`."""
        if not self.launched:
            return moment
        return max([least, *(end for at, end in zip(self.launched, self.ends, strict=True) if at < moment)])


def _shape(event: Event) -> tuple[int, ...] | None:
    """The shape of a gradient; None if the trace has no shapes."""
    shapes = event.arguments.get("Input Dims")
    return tuple(shapes[0]) if isinstance(shapes, list) and shapes and isinstance(shapes[0], list) else None


def _by_variable(step: TracedStep, model: ModelSpec, what: str) -> tuple[dict[str, float], dict[str, float | None]]:
    """The ready and read times of a step by variable. Raises `SpecError` if the trace is of another model."""
    variables = sorted(model.variables, key=lambda variable: variable.ready_order)
    if len(step.ready) != len(variables):
        raise SpecError(
            f"{what} has {len(step.ready)} gradients in a step, and model {model.name!r} has {len(variables)} "
            f"variables; {SHOWN}, and trace a step of this model without gradient accumulation."
        )
    waiting: dict[tuple[int, ...] | None, list[str]] = defaultdict(list)
    for variable in variables:
        waiting[None if None in step.shapes else variable.shape].append(variable.name)
    ready, read = dict[str, float](), dict[str, float | None]()
    for shape, ready_time, read_time in zip(step.shapes, step.ready, step.read, strict=True):
        names = waiting[None if None in step.shapes else shape]
        if not names:
            raise SpecError(
                f"{what} has a gradient of shape {list(shape or ())} more than model {model.name!r} has variables of "
                "this shape; trace a step of this model."
            )
        name = names.pop(0)
        ready[name], read[name] = ready_time, read_time
    return ready, read


def _device(document: dict[str, Any], events: Sequence[Event]) -> str:
    devices = document.get("deviceProperties")
    used = {event.arguments.get("device") for event in events if event.kind in KERNELS}
    for item in devices if isinstance(devices, list) else ():
        if isinstance(item, dict) and (item.get("id") in used):
            return str(item.get("name"))
    return "a GPU" if used else f"CPU of {document.get('host_name', 'an unnamed host')}"


def _versions(document: dict[str, Any]) -> dict[str, str]:
    known = {"kineto": "schemaVersion", "cuda": "cuda_runtime_version", "cuda driver": "cuda_driver_version"}
    return {name: str(document[key]) for name, key in known.items() if key in document} or {"kineto": "unknown"}


def _day(document: dict[str, Any], events: Sequence[Event]) -> str:
    """The day of the trace. Times count from the stated base, or from 1970 in older traces."""
    base = document.get("baseTimeNanoseconds", 0)
    seconds = events[0].begin + (base * 1e-9 if isinstance(base, int | float) else 0.0)
    return datetime.fromtimestamp(seconds, timezone.utc).date().isoformat()
