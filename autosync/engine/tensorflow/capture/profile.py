"""Profiles a step: the times of one replica's passes on this machine, and when each gradient is ready."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from autosync.engine.tensorflow.capture.captured import CapturedModel
from autosync.spec import ModelProfile

TRACED_RUNS = 3
MOST_RUNS = 7
PATIENCE_SECONDS = 3.0
"""Seconds after which no further run starts, except a first one. A few runs are enough to time a long step."""

LEAST_SHARE = 0.01
"""The smallest share of a step's time that the profile gives to a pass."""


def profile(captured: CapturedModel) -> CapturedModel:
    """Return `captured` with the times of a step on this process's processor in its spec."""
    return replace(captured, spec=replace(captured.spec, profile=profile_step(captured)))


def profile_step(captured: CapturedModel) -> ModelProfile:
    """Run the gradient function a few times in this process, on the processor; return the model's profile.

    Core-seconds are the process's processor time, so waiting threads do not count, and other processes have little
    influence. Traced runs split the core-seconds: operations that the loss depends on are the forward pass, and all
    others the backward pass. A gradient is ready when the operation that computes it has ended. Its fraction is the
    share of the backward pass's work that is done by then.
    """
    with _Runner(captured) as runner:
        runner.run()  # the first run also prepares the graph
        begin, core_seconds = time.monotonic(), list[float]()
        while not core_seconds or (len(core_seconds) < MOST_RUNS and time.monotonic() - begin < PATIENCE_SECONDS):
            core_seconds.append(runner.run())
        begin, traces = time.monotonic(), list[_Trace]()
        while not traces or (len(traces) < TRACED_RUNS and time.monotonic() - begin < PATIENCE_SECONDS):
            traces.append(runner.trace())
    whole = max(min(core_seconds), 1e-9)  # other load makes a run longer, never shorter
    forward = float(np.median([trace.forward_share for trace in traces]))
    ready = np.median([trace.ready for trace in traces], axis=0).tolist()
    names = [variable.name for variable in captured.spec.variables]
    return ModelProfile(whole * forward, whole * (1 - forward), dict(zip(names, ready, strict=True)))


@dataclass(frozen=True)
class _Trace:
    """One traced run. `ready`, float64 (variables,): the fraction of backward work at which each gradient was ready."""

    forward_share: float
    ready: npt.NDArray[np.float64]


class _Runner:
    """The gradient function in its own session, because only sessions report the times of single operations."""

    def __init__(self, captured: CapturedModel) -> None:
        function, outputs = captured.gradient, [2 if variable.sparse else 1 for variable in captured.spec.variables]
        self._graph = tf.Graph()
        with self._graph.as_default():
            tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(function.graph), name="")
        made = list(function.outputs[1 : 1 + sum(outputs)])
        element = self._graph.as_graph_element
        self._gradients = [[element(made.pop(0)).op for _ in range(count)] for count in outputs]
        self._loss = element(function.outputs[0]).op
        self._fetches = [self._loss, *(operation for of_variable in self._gradients for operation in of_variable)]
        self._forward = _ancestors(self._loss)
        self._feed = dict(zip(function.inputs, _inputs(captured), strict=True))
        options = tf.compat.v1.ConfigProto(device_count={"GPU": 0})
        options.graph_options.rewrite_options.disable_meta_optimizer = True  # capturing has already optimized the graph
        self._session = tf.compat.v1.Session(graph=self._graph, config=options)

    def __enter__(self) -> _Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def run(self) -> float:
        """Run once; return the core-seconds."""
        begin = time.process_time()
        self._session.run(self._fetches, self._feed)
        return time.process_time() - begin

    def trace(self) -> _Trace:
        metadata = tf.compat.v1.RunMetadata()
        options = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.SOFTWARE_TRACE)
        self._session.run(self._fetches, self._feed, options, metadata)
        seconds, ended = _work_times([stats for device in metadata.step_stats.dev_stats for stats in device.node_stats])
        backward = sorted((name for name in ended if name not in self._forward), key=ended.__getitem__)
        done = np.cumsum([seconds[name] for name in backward])
        before, after = sum(seconds.values()) - float(done[-1:].sum()), max(float(done[-1:].sum()), 1e-9)
        at = dict(zip(backward, (done / after).tolist(), strict=True))
        ready = [max(at.get(operation.name, 0.0) for operation in of_variable) for of_variable in self._gradients]
        return _Trace(float(np.clip(before / (before + after), LEAST_SHARE, 1 - LEAST_SHARE)), np.clip(ready, 0.0, 1.0))


def _work_times(stats: Sequence[Any]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds that each operation worked, summed over the iterations of a loop, and the time of its end."""
    seconds, ended = dict[str, float](), dict[str, float]()
    for node in stats:
        name, end = node.node_name, (node.all_start_micros + node.op_end_rel_micros) * 1e-6
        seconds[name] = seconds.get(name, 0.0) + max(node.op_end_rel_micros - node.op_start_rel_micros, 0) * 1e-6
        ended[name] = max(end, ended.get(name, end))
    return seconds, ended


def _ancestors(operation: Any) -> set[str]:
    """Return the names of `operation` and of all operations that it depends on."""
    needed, open_ends = {operation.name}, [operation]
    while open_ends:
        dependent = open_ends.pop()
        for before in [*(tensor.op for tensor in dependent.inputs), *dependent.control_inputs]:
            if before.name not in needed:
                needed.add(before.name)
                open_ends.append(before)
    return needed


def _inputs(captured: CapturedModel) -> list[npt.NDArray[Any]]:
    """Return the gradient function's inputs: values (or rows of sparse variables), state, metrics, batch, positions."""
    with tf.device("/cpu:0"):
        batch = [tensor.numpy() for tensor in captured.batch.callable()(tf.constant([0, 0], tf.int32))]
        row_numbers = captured.lookups.callable()(*map(tf.constant, batch)) if captured.lookup_of else []
        ids = [numbers.numpy() for numbers in row_numbers]
    values, positions = _rows_read(captured, ids)
    return [*values, *captured.initial_state, *captured.initial_metrics, *batch, *positions]


def _rows_read(
    captured: CapturedModel, ids: Sequence[npt.NDArray[Any]]
) -> tuple[list[npt.NDArray[Any]], list[npt.NDArray[Any]]]:
    """Return the values, with only the looked-up rows of sparse variables, and each lookup's positions in them."""
    of_variable: dict[int, list[npt.NDArray[Any]]] = {}
    for variable, numbers in zip(captured.lookup_of, ids, strict=True):
        of_variable.setdefault(variable, []).append(np.ravel(numbers))
    rows: Mapping[int, npt.NDArray[Any]] = {
        variable: np.unique(np.concatenate(arrays)) for variable, arrays in of_variable.items()
    }
    values = [value[rows[number]] if number in rows else value for number, value in enumerate(captured.initial_values)]
    positions = [
        np.searchsorted(rows[variable], numbers).astype(numbers.dtype)
        for variable, numbers in zip(captured.lookup_of, ids, strict=True)
    ]
    return values, positions
