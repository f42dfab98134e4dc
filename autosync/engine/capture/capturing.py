"""Capturing: from a training task in Keras to a model that runs anywhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosync.engine.capture.captured import CapturedModel
from autosync.engine.capture.forward import Forward, run_forward
from autosync.engine.capture.graph_function import GraphFunction, simplified
from autosync.engine.capture.lookups import (
    Lookup,
    compact_gradient,
    find_lookups,
    lookup_function,
    rows_per_step,
    sources_of,
)
from autosync.engine.capture.notes import notes_on_state
from autosync.engine.capture.operators import coarse_operators
from autosync.engine.capture.optimizer import LOSS_SCALE, gradient_rule_of
from autosync.engine.capture.settings import by_its_settings
from autosync.engine.capture.sufficient_factors import sufficient_factors
from autosync.engine.capture.task import TrainingTask
from autosync.engine.capture.update_rules import capture_optimizers
from autosync.engine.capture.variables import names_of, state_variables
from autosync.errors import ModelError
from autosync.spec import DTYPE_BYTES, ModelSpec, Variable, said


@dataclass
class _Trace:
    """The traced gradient function, with the properties of each variable that tracing revealed."""

    function: GraphFunction
    graph: Any
    variable_inputs: list[Any]
    batch_inputs: list[Any]
    sparse: list[bool]
    gradient_operations: list[Any]
    factors: dict[int, tuple[Any, Any]]
    per_replica: list[Any]
    """State variables that a pass changes by the batch, so that replicas come to differ in them."""
    metrics: tuple[str, ...]


@by_its_settings
def capture(task: TrainingTask) -> CapturedModel:
    """The captured form of `task`. The same task gives the same result, to the bit.

    A variable that the loss does not depend on is kept as state; a lookup table that is also read in another way
    gets a dense gradient. Both are said in `notes`. Raises `ModelError`.
    """
    notes = list(task.notes)
    batch_function, structure = _trace_batch(task)
    trained, idle = _trained_variables(task, structure)
    notes += [f"Variable {variable.path!r} has no path to the loss and is not trained." for variable in idle]
    trace, lookups = _trace_gradient(task, structure, trained, idle, notes)
    flat_lookups = [each for of_variable in lookups for each in of_variable]
    batch_names = [tensor.name for tensor in trace.batch_inputs]
    ids_of_batch = lookup_function(trace.function, batch_names, flat_lookups)
    lookup_of = tuple(index for index, of_variable in enumerate(lookups) for _ in of_variable)
    rows = rows_per_step(batch_function, ids_of_batch, lookup_of)
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
        gradient=simplified(gradient, kept=[name for pair in factors.values() for name in pair]),
        batch=simplified(batch_function),
        lookups=ids_of_batch,
        lookup_of=lookup_of,
        optimizers=optimizers,
        initial_values=tuple(np.asarray(each.numpy()) for each in trained),
        initial_state=(*(np.asarray(each.numpy()) for each in state), *map(np.asarray, scale)),
        state_names=(*(each.path for each in state), *(LOSS_SCALE for _ in scale)),
        seeds=(*("seed_generator_state" in each.path for each in state), *(False for _ in scale)),
        notes=tuple(notes),
        gradient_rule=rule,
        factors=factors,
        rules=rules,
        initial_metrics=task.metrics.initial if task.metrics else (),
    )


def _trace_batch(task: TrainingTask) -> tuple[GraphFunction, Any]:
    """The batch function on flat tensors, and the structure (inputs, targets) of TensorSpecs it makes."""
    import tensorflow as tf

    structures = []

    def batch(seed: Any) -> list[Any]:
        made = tf.nest.map_structure(tf.convert_to_tensor, task.batch(seed))
        structures.append(tf.nest.map_structure(lambda each: _batch_spec(each, task.any_batch_size), made))
        return tf.nest.flatten(made)

    function = GraphFunction.trace(batch, [tf.TensorSpec([2], tf.int32)])
    return function, structures[-1]


def _batch_spec(tensor: Any, any_batch_size: bool) -> Any:
    import tensorflow as tf

    shape = [None, *tensor.shape[1:]] if any_batch_size else tensor.shape
    return tf.TensorSpec(shape, tensor.dtype)


def _run_model(
    task: TrainingTask, values: Sequence[Any], state: Sequence[Any], inputs: Any, targets: Any
) -> tuple[Forward, Any]:
    """One forward pass, and its loss with those that layers add (regularizers), as a float32 scalar."""
    import tensorflow as tf

    def loss_of(outputs: Any) -> Any:
        with tf.name_scope(""):
            return tf.cast(task.loss(targets, outputs), tf.float32)

    with tf.name_scope("forward"):  # at the root TensorFlow refuses names that layers may have, as `_mine`
        done = run_forward(task.model, values, state, inputs, loss_of)
    added = [tf.cast(loss if loss.shape.rank == 0 else tf.reduce_sum(loss), tf.float32) for loss in done.added]
    return done, tf.add_n([done.loss, *added])


def _specs(variables: Sequence[Any]) -> list[Any]:
    import tensorflow as tf

    return [tf.TensorSpec(each.shape, each.dtype) for each in variables]


def _trained_variables(task: TrainingTask, structure: Any) -> tuple[list[Any], list[Any]]:
    """Trainable variables that the loss depends on, and the others."""
    model = task.model
    for each in model.trainable_variables:
        if str(each.dtype) not in DTYPE_BYTES:
            raise ModelError(f"Variable {each.path!r} has dtype {each.dtype}; trainable are {', '.join(DTYPE_BYTES)}.")
    connected = _connected(task, structure)
    trained = [each for each, used in zip(model.trainable_variables, connected, strict=True) if used]
    idle = [each for each, used in zip(model.trainable_variables, connected, strict=True) if not used]
    if not trained:
        raise ModelError(f"The loss of model {task.name!r} depends on none of its trainable variables; check the loss.")
    return trained, idle


def _connected(task: TrainingTask, structure: Any) -> list[bool]:
    """Whether the loss depends on each trainable variable (found on a graph that is then thrown away)."""
    import tensorflow as tf

    connected: list[bool] = []

    def gradients(values: Any, state: Any, batch: Any) -> None:
        inputs, targets = batch
        _, loss = _run_model(task, values, state, inputs, targets)
        connected[:] = [each is not None for each in tf.gradients(loss, values)]

    model = task.model
    try:
        tf.function(gradients, autograph=False).get_concrete_function(
            _specs(model.trainable_variables), _specs(state_variables(model)), structure
        )
    except Exception as error:  # any error of a user's layer or loss
        reason = f"{type(error).__name__}: {said(error)}"
        raise ModelError(f"Model {task.name!r} and its loss must run as a TensorFlow graph, but {reason}") from error
    return connected


def _trace_gradient(
    task: TrainingTask, structure: Any, trained: list[Any], idle: list[Any], notes: list[str]
) -> tuple[_Trace, list[list[Lookup]]]:
    """Trace until every sparse gradient belongs to a variable that is only looked up, by rows known from the batch."""
    dense: set[int] = set()
    while True:
        trace = _trace_once(task, structure, trained, idle, dense)
        lookups: list[list[Lookup]] = []
        awkward = set()
        for index, is_sparse in enumerate(trace.sparse):
            found = find_lookups(trace.variable_inputs[index], trace.batch_inputs) if is_sparse else []
            if found is None:
                awkward.add(index)
                notes.append(f"Variable {trained[index].path!r} is not only looked up; its gradient is made dense.")
            lookups.append(found or [])
        if not awkward:
            return trace, lookups
        dense |= awkward


def _trace_once(task: TrainingTask, structure: Any, trained: list[Any], idle: list[Any], dense: set[int]) -> _Trace:
    import tensorflow as tf

    model = task.model
    place = {id(each): index for index, each in enumerate([*trained, *idle])}
    order = [place[id(each)] for each in model.trainable_variables]
    batch_specs = tf.nest.flatten(structure)
    metric_specs = [tf.TensorSpec(each.shape, each.dtype) for each in (task.metrics.initial if task.metrics else ())]
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
        for index, each in enumerate(gradients):
            is_sparse = isinstance(each, tf.IndexedSlices) and index not in dense
            tensors = [each.values, each.indices] if is_sparse else [tf.convert_to_tensor(each)]
            sparse.append(is_sparse)
            ends.append(tensors[0].op)
            results += tensors
            pair = None if is_sparse else sufficient_factors(tensors[0], tuple(trained[index].shape))
            if pair:
                factors[index] = pair
        new_metrics = task.metrics.updated(metrics, targets, done.outputs) if task.metrics else []
        return [*results, *state[: len(idle)], *done.state, *scale, *new_metrics]

    own_state = [*_specs(idle), *_specs(state_variables(model)), *([tf.TensorSpec([])] if scales else [])]
    specs = [*_specs(trained), *own_state, *metric_specs, *batch_specs]
    layers = {each.name for each in model._flatten_layers()}
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
    trace: _Trace, trained: Sequence[Any], names: Sequence[str], rows: dict[int, float]
) -> tuple[Variable, ...]:
    """Variables in graph order. The tape writes the backward pass in the order it is run, so a gradient's place in
    the traced graph tells when it becomes ready."""
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
            rows_per_step=rows.get(index),
            factor_rows=int(trace.factors[index][0].shape[0]) if index in trace.factors else None,
        )
        for index, variable in enumerate(trained)
    )
