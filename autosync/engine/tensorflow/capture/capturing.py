"""Captures a Keras training task as a model that runs in any TensorFlow process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from autosync.engine.core.touched_rows import TouchedRows
from autosync.engine.tensorflow.capture.captured import CapturedModel
from autosync.engine.tensorflow.capture.forward import Forward, run_forward
from autosync.engine.tensorflow.capture.graph_function import GraphFunction, simplify
from autosync.engine.tensorflow.capture.lookups import (
    Lookup,
    compact_gradient,
    find_lookups,
    lookup_function,
    sources_of,
    touched_rows,
)
from autosync.engine.tensorflow.capture.notes import notes_on_state
from autosync.engine.tensorflow.capture.operators import coarse_operators
from autosync.engine.tensorflow.capture.optimizer import LOSS_SCALE, gradient_rule_of
from autosync.engine.tensorflow.capture.settings import by_its_settings
from autosync.engine.tensorflow.capture.sufficient_factors import sufficient_factors
from autosync.engine.tensorflow.capture.task import TrainingTask
from autosync.engine.tensorflow.capture.update_rules import capture_optimizers
from autosync.engine.tensorflow.capture.variables import names_of, state_variables
from autosync.errors import ModelError
from autosync.spec import DTYPE_BYTES, ModelSpec, Variable, said


@dataclass
class _Trace:
    """The traced gradient function, with the properties of variables that tracing has found."""

    function: GraphFunction
    graph: Any
    """The traced `tf.Graph`."""
    variable_inputs: list[Any]
    """The placeholder of each variable."""
    batch_inputs: list[Any]
    """The placeholders of the batch."""
    sparse: list[bool]
    """Whether each variable has a sparse gradient."""
    gradient_operations: list[Any]
    """The operation that computes each variable's gradient."""
    factors: dict[int, tuple[Any, Any]]
    """The tensors A and B, by variable number, of gradients that are a product A^T B."""
    per_replica: list[Any]
    """State variables that a pass changes depending on the batch, so that replicas differ in them."""
    metrics: tuple[str, ...]
    """The names of metrics that the forward pass itself updates."""


@by_its_settings
def capture(task: TrainingTask) -> CapturedModel:
    """Capture `task`. The same task gives the same result to the bit.

    A variable without influence on the loss becomes state. A lookup table that is also read in another way gets a dense
    gradient. `notes` reports both. Raises `ModelError`.
    """
    notes = list(task.notes)
    batch_function, structure = _trace_batch(task)
    trained, idle = _split_trainable(task, structure)
    notes += [f"Variable {variable.path!r} has no path to the loss and is not trained." for variable in idle]
    trace, lookups = _trace_gradient(task, structure, trained, idle, notes)
    flat_lookups = [lookup for of_variable in lookups for lookup in of_variable]
    batch_names = [tensor.name for tensor in trace.batch_inputs]
    ids_of_batch = lookup_function(trace.function, batch_names, flat_lookups)
    lookup_of = tuple(index for index, of_variable in enumerate(lookups) for _ in of_variable)
    rows = touched_rows(batch_function, ids_of_batch, lookup_of)
    tables = {trace.variable_inputs[i].name: trained[i].shape for i in sorted(set(lookup_of))}
    gradient = compact_gradient(trace.function, flat_lookups, tables)
    factors = {index: (left.name, right.name) for index, (left, right) in trace.factors.items()}
    optimizers, rules = capture_optimizers(task.optimizer, trained)
    rule = gradient_rule_of(task.optimizer)
    state = [*idle, *state_variables(task.model)]
    scale = [] if rule.loss_scale is None else [np.float32(rule.loss_scale)]
    notes += notes_on_state(task.model, state, trace.per_replica, trace.metrics)
    all_names = dict(
        zip(map(id, task.model.trainable_variables), names_of(task.model.trainable_variables), strict=True)
    )
    names = [all_names[id(variable)] for variable in trained]
    first = next(iter(optimizers.values()))
    spec = ModelSpec(
        name=task.name,
        batch_size=task.batch_size,
        optimizer=first.text,
        slots=len(first.slot_starts),
        variables=_variables(trace, trained, names, rows),
        operators=coarse_operators(trace.graph.get_operations(), _variable_names(trace, names)),
    )
    return CapturedModel(
        spec=spec,
        gradient=simplify(gradient, kept=[name for pair in factors.values() for name in pair]),
        batch=simplify(batch_function),
        lookups=ids_of_batch,
        lookup_of=lookup_of,
        optimizers=optimizers,
        initial_values=tuple(np.asarray(variable.numpy()) for variable in trained),
        initial_state=(*(np.asarray(variable.numpy()) for variable in state), *map(np.asarray, scale)),
        state_names=(*(variable.path for variable in state), *(LOSS_SCALE for _ in scale)),
        seeds=(*("seed_generator_state" in variable.path for variable in state), *(False for _ in scale)),
        notes=tuple(notes),
        gradient_rule=rule,
        factors=factors,
        rules=rules,
        initial_metrics=task.metrics.initial if task.metrics else (),
    )


def _trace_batch(task: TrainingTask) -> tuple[GraphFunction, Any]:
    """Return the batch function on flat tensors, and the structure (inputs, targets) of its TensorSpecs."""
    structures = []

    def batch(seed: Any) -> list[Any]:
        made = tf.nest.map_structure(tf.convert_to_tensor, task.batch(seed))
        structures.append(tf.nest.map_structure(lambda tensor: _batch_spec(tensor, task.any_batch_size), made))
        return tf.nest.flatten(made)

    function = GraphFunction.trace(batch, [tf.TensorSpec([2], tf.int32)])
    return function, structures[-1]


def _batch_spec(tensor: Any, any_batch_size: bool) -> Any:
    shape = [None, *tensor.shape[1:]] if any_batch_size else tensor.shape
    return tf.TensorSpec(shape, tensor.dtype)


def _run_model(
    task: TrainingTask, values: Sequence[Any], state: Sequence[Any], inputs: Any, targets: Any
) -> tuple[Forward, Any]:
    """Run a forward pass; return it with its loss, including losses of layers (regularizers), as float32 scalar."""

    def loss_of(outputs: Any) -> Any:
        with tf.name_scope(""):
            return tf.cast(task.loss(targets, outputs), tf.float32)

    with tf.name_scope("forward"):  # at the root TensorFlow refuses some names of layers, such as `_mine`
        done = run_forward(task.model, values, state, inputs, loss_of)
    added = [tf.cast(loss if loss.shape.rank == 0 else tf.reduce_sum(loss), tf.float32) for loss in done.added]
    return done, tf.add_n([done.loss, *added])


def _specs(variables: Sequence[Any]) -> list[Any]:
    return [tf.TensorSpec(variable.shape, variable.dtype) for variable in variables]


def _split_trainable(task: TrainingTask, structure: Any) -> tuple[list[Any], list[Any]]:
    """Split the trainable variables into those that influence the loss and the others."""
    model = task.model
    for variable in model.trainable_variables:
        if str(variable.dtype) not in DTYPE_BYTES:
            raise ModelError(
                f"Variable {variable.path!r} has dtype {variable.dtype}; trainable are {', '.join(DTYPE_BYTES)}."
            )
    influences = _influences(task, structure)
    trained = [variable for variable, used in zip(model.trainable_variables, influences, strict=True) if used]
    idle = [variable for variable, used in zip(model.trainable_variables, influences, strict=True) if not used]
    if not trained:
        raise ModelError(f"The loss of model {task.name!r} depends on none of its trainable variables; check the loss.")
    return trained, idle


def _influences(task: TrainingTask, structure: Any) -> list[bool]:
    """Return, for each trainable variable, whether the loss depends on it. A temporary graph is traced for this."""
    influences: list[bool] = []

    def gradients(values: Any, state: Any, batch: Any) -> None:
        inputs, targets = batch
        _, loss = _run_model(task, values, state, inputs, targets)
        influences[:] = [gradient is not None for gradient in tf.gradients(loss, values)]

    model = task.model
    try:
        tf.function(gradients, autograph=False).get_concrete_function(
            _specs(model.trainable_variables), _specs(state_variables(model)), structure
        )
    except Exception as error:  # any error of a user's layer or loss
        reason = f"{type(error).__name__}: {said(error)}"
        raise ModelError(f"Model {task.name!r} and its loss must run as a TensorFlow graph, but {reason}") from error
    return influences


def _trace_gradient(
    task: TrainingTask, structure: Any, trained: list[Any], idle: list[Any], notes: list[str]
) -> tuple[_Trace, list[list[Lookup]]]:
    """Trace until every sparse gradient belongs to a variable that is only looked up, by row numbers from the batch."""
    dense: set[int] = set()
    while True:
        trace = _trace_once(task, structure, trained, idle, dense)
        lookups: list[list[Lookup]] = []
        awkward = set()
        for index, is_sparse in enumerate(trace.sparse):
            of_variable = find_lookups(trace.variable_inputs[index], trace.batch_inputs) if is_sparse else []
            if of_variable is None:
                awkward.add(index)
                notes.append(f"Variable {trained[index].path!r} is not only looked up; its gradient is made dense.")
            lookups.append(of_variable or [])
        if not awkward:
            return trace, lookups
        dense |= awkward


def _trace_once(task: TrainingTask, structure: Any, trained: list[Any], idle: list[Any], dense: set[int]) -> _Trace:
    model = task.model
    place = {id(variable): index for index, variable in enumerate([*trained, *idle])}
    order = [place[id(variable)] for variable in model.trainable_variables]
    batch_specs = tf.nest.flatten(structure)
    metric_specs = [tf.TensorSpec(state.shape, state.dtype) for state in (task.metrics.initial if task.metrics else ())]
    scales = gradient_rule_of(task.optimizer).loss_scale is not None
    sparse: list[bool] = []
    ends: list[Any] = []
    factors: dict[int, tuple[Any, Any]] = {}
    passes: list[tuple[Sequence[Any], Forward]] = []

    def gradient(*flat: Any) -> list[Any]:
        values = flat[: len(trained)]
        metrics = flat[len(flat) - len(batch_specs) - len(metric_specs) : len(flat) - len(batch_specs)]
        state = flat[len(trained) : len(flat) - len(batch_specs) - len(metric_specs)]
        inputs, targets = tf.nest.pack_sequence_as(structure, flat[len(flat) - len(batch_specs) :])
        scale = [state[-1]] if scales else []
        model_state = state[len(idle) : len(state) - len(scale)]
        all_values = [*values, *state[: len(idle)]]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(values)
            ordered = [all_values[index] for index in order]
            done, loss = _run_model(task, ordered, model_state, inputs, targets)
            scaled_loss = loss * scale[0] if scale else loss
        passes[:] = [(model_state, done)]
        gradients = tape.gradient(scaled_loss, list(values))
        sparse.clear()
        ends.clear()
        factors.clear()
        results = [loss]
        for index, of_variable in enumerate(gradients):
            is_sparse = isinstance(of_variable, tf.IndexedSlices) and index not in dense
            tensors = [of_variable.values, of_variable.indices] if is_sparse else [tf.convert_to_tensor(of_variable)]
            sparse.append(is_sparse)
            ends.append(tensors[0].op)
            results += tensors
            pair = None if is_sparse else sufficient_factors(tensors[0], tuple(trained[index].shape))
            if pair:
                factors[index] = pair
        new_metrics = task.metrics.update(metrics, targets, done.outputs) if task.metrics else []
        return [*results, *state[: len(idle)], *done.state, *scale, *new_metrics]

    state_specs = [*_specs(idle), *_specs(state_variables(model)), *([tf.TensorSpec([])] if scales else [])]
    specs = [*_specs(trained), *state_specs, *metric_specs, *batch_specs]
    layers = {layer.name for layer in model._flatten_layers()}
    function, graph = GraphFunction.trace_with_graph(gradient, specs, layers)
    batch_inputs = graph.inputs[len(specs) - len(batch_specs) : len(specs)]
    [(state_before, done)] = passes
    names = {tensor.op.name for tensor in batch_inputs}
    per_replica = [
        variable
        for variable, before, after in zip(state_variables(model), state_before, done.state, strict=True)
        if after is not before and names & sources_of(after)
    ]
    return _Trace(
        function=function,
        graph=graph,
        variable_inputs=graph.inputs[: len(trained)],
        batch_inputs=batch_inputs,
        sparse=list(sparse),
        gradient_operations=list(ends),
        factors=factors,
        per_replica=per_replica,
        metrics=done.metrics,
    )


def _variable_names(trace: _Trace, names: Sequence[str]) -> dict[str, str]:
    return {tensor.op.name: name for tensor, name in zip(trace.variable_inputs, names, strict=True)}


def _variables(
    trace: _Trace, trained: Sequence[Any], names: Sequence[str], rows: dict[int, TouchedRows]
) -> tuple[Variable, ...]:
    """Return the variables in graph order. The tape records the backward pass in the order of execution, so the
    position of a gradient in the traced graph gives the order in which gradients become ready.
    """
    created = {operation.name: number for number, operation in enumerate(trace.graph.get_operations())}
    places = [created[operation.name] for operation in trace.gradient_operations]
    ready = {index: order for order, index in enumerate(sorted(range(len(places)), key=lambda i: (places[i], i)))}
    return tuple(
        Variable(
            name=names[index],
            shape=tuple(int(size) for size in variable.shape),
            dtype=str(variable.dtype),
            ready_order=ready[index],
            sparse=index in rows,
            rows_per_step=rows[index].one if index in rows else None,
            factor_rows=int(trace.factors[index][0].shape[0]) if index in trace.factors else None,
            rows_of_two=rows[index].two if index in rows else None,
        )
        for index, variable in enumerate(trained)
    )
