"""A profiled step: how long one replica's passes take here, and when each gradient is there."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autosync.engine.capture.captured import CapturedModel
from autosync.spec import ModelProfile

TRACED_RUNS = 3
MOST_RUNS = 7
PATIENCE_SECONDS = 3.0
"""Seconds after which only a first run is still begun: a big model's step is long enough to be timed by a few."""

LEAST_SHARE = 0.01
"""The least share of a step's time that either pass is taken to have."""


def profiled(captured: CapturedModel) -> CapturedModel:
    """`captured`, its spec saying what a step takes on this process's processor."""
    return replace(captured, spec=replace(captured.spec, profile=profile_step(captured)))


def profile_step(captured: CapturedModel) -> ModelProfile:
    """Run the gradient function a few times in this process, on the processor.

    Core-seconds are the process's processor time, so that threads which wait count nothing, and other processes little.
    Traced runs divide them: what the loss needs is the forward pass, all else the backward pass. A gradient is there
    when the operation that makes it has ended; the work that was done by then, of all the backward pass's, is its
    fraction.
    """
    with _Runner(captured) as runner:
        runner.run()  # the first run also prepares the graph
        begin, core_seconds = time.monotonic(), list[float]()
        while not core_seconds or (len(core_seconds) < MOST_RUNS and time.monotonic() - begin < PATIENCE_SECONDS):
            core_seconds.append(runner.run())
        begin, traces = time.monotonic(), list[_Trace]()
        while not traces or (len(traces) < TRACED_RUNS and time.monotonic() - begin < PATIENCE_SECONDS):
            traces.append(runner.trace())
    whole = max(min(core_seconds), 1e-9)  # what else the machine does makes a run longer, never shorter
    forward = float(np.median([each.forward_share for each in traces]))
    ready = np.median([each.ready for each in traces], axis=0).tolist()
    names = [variable.name for variable in captured.spec.variables]
    return ModelProfile(whole * forward, whole * (1 - forward), dict(zip(names, ready, strict=True)))


@dataclass(frozen=True)
class _Trace:
    """`ready`, float64 (variables,), is when each gradient was there, as a fraction of the backward pass's work."""

    forward_share: float
    ready: npt.NDArray[np.float64]


class _Runner:
    """The gradient function in a session of its own, the one way to be told when each operation ran."""

    def __init__(self, captured: CapturedModel) -> None:
        import tensorflow as tf

        function, outputs = captured.gradient, [2 if each.sparse else 1 for each in captured.spec.variables]
        self._graph = tf.Graph()
        with self._graph.as_default():
            tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(function.graph), name="")
        made = list(function.outputs[1 : 1 + sum(outputs)])
        element = self._graph.as_graph_element
        self._gradients = [[element(made.pop(0)).op for _ in range(count)] for count in outputs]
        self._loss = element(function.outputs[0]).op
        self._fetches = [self._loss, *(each for of_variable in self._gradients for each in of_variable)]
        self._forward = _needed_by(self._loss)
        self._feed = dict(zip(function.inputs, _inputs(captured), strict=True))
        options = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        options.graph_options.rewrite_options.disable_meta_optimizer = True  # it was optimized when it was captured
        self._session = tf.compat.v1.Session(graph=self._graph, config=options)

    def __enter__(self) -> _Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def run(self) -> float:
        """Core-seconds of one run."""
        begin = time.process_time()
        self._session.run(self._fetches, self._feed)
        return time.process_time() - begin

    def trace(self) -> _Trace:
        import tensorflow as tf

        told = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.SOFTWARE_TRACE)
        self._session.run(self._fetches, self._feed, options, told)
        seconds, ended = _worked([each for device in told.step_stats.dev_stats for each in device.node_stats])
        backward = sorted((name for name in ended if name not in self._forward), key=ended.__getitem__)
        done = np.cumsum([seconds[name] for name in backward])
        before, after = sum(seconds.values()) - float(done[-1:].sum()), max(float(done[-1:].sum()), 1e-9)
        at = dict(zip(backward, (done / after).tolist(), strict=True))
        ready = [max(at.get(each.name, 0.0) for each in of_variable) for of_variable in self._gradients]
        return _Trace(float(np.clip(before / (before + after), LEAST_SHARE, 1 - LEAST_SHARE)), np.clip(ready, 0.0, 1.0))


def _worked(stats: Sequence[Any]) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds that each operation worked, in a loop all times together, and when it had ended."""
    seconds, ended = dict[str, float](), dict[str, float]()
    for each in stats:
        name, end = each.node_name, (each.all_start_micros + each.op_end_rel_micros) * 1e-6
        seconds[name] = seconds.get(name, 0.0) + max(each.op_end_rel_micros - each.op_start_rel_micros, 0) * 1e-6
        ended[name] = max(end, ended.get(name, end))
    return seconds, ended


def _needed_by(operation: Any) -> set[str]:
    """Names of the operations that `operation` cannot run without, itself among them."""
    needed, open_ends = {operation.name}, [operation]
    while open_ends:
        each = open_ends.pop()
        for before in [*(tensor.op for tensor in each.inputs), *each.control_inputs]:
            if before.name not in needed:
                needed.add(before.name)
                open_ends.append(before)
    return needed


def _inputs(captured: CapturedModel) -> list[npt.NDArray[Any]]:
    """What the gradient function takes: values (the rows read of a sparse one), state, metrics, batch, positions."""
    import tensorflow as tf

    with tf.device("/cpu:0"):
        batch = [each.numpy() for each in captured.batch.callable()(tf.constant([0, 0], tf.int32))]
        found = captured.lookups.callable()(*map(tf.constant, batch)) if captured.lookup_of else []
        ids = [each.numpy() for each in found]
    values, positions = _rows_read(captured, ids)
    return [*values, *captured.initial_state, *captured.initial_metrics, *batch, *positions]


def _rows_read(
    captured: CapturedModel, ids: Sequence[npt.NDArray[Any]]
) -> tuple[list[npt.NDArray[Any]], list[npt.NDArray[Any]]]:
    """Values, with the rows read in place of a sparse variable, and for each lookup the positions in these rows."""
    of_variable: dict[int, list[npt.NDArray[Any]]] = {}
    for variable, each in zip(captured.lookup_of, ids, strict=True):
        of_variable.setdefault(variable, []).append(np.ravel(each))
    rows: Mapping[int, npt.NDArray[Any]] = {
        variable: np.unique(np.concatenate(each)) for variable, each in of_variable.items()
    }
    values = [value[rows[number]] if number in rows else value for number, value in enumerate(captured.initial_values)]
    positions = [
        np.searchsorted(rows[variable], each).astype(each.dtype)
        for variable, each in zip(captured.lookup_of, ids, strict=True)
    ]
    return values, positions
