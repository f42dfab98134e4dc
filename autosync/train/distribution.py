"""Training one's own Keras model under a strategy: `distribute`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from autosync.engine.loading import check_backend
from autosync.spec import ClusterSpec, Strategy
from autosync.train.data import BatchForm, Weighted, as_arrays
from autosync.train.given_strategy import check_devices, read_strategy, workers_named
from autosync.train.place import Where, open_place
from autosync.train.running import Objective
from autosync.train.trainer import Trainer

if TYPE_CHECKING:
    from autosync.engine.capture.task import TrainingTask


def distribute(
    model: Any,
    loss: Any = None,
    optimizer: Any = None,
    strategy: Strategy | Mapping[str, Any] | str | os.PathLike[str] = "strategy.json",
    cluster: ClusterSpec | str | os.PathLike[str] | None = None,
    *,
    backend: str = "ray",
    workers: int | None = None,
    example: tuple[Any, Any] | None = None,
    metrics: Any = (),
) -> Trainer:
    """A trainer of `model` on `cluster`, whose gradients are synchronized as `strategy` says.

    model      a `keras.Model`; its layers' weights are what training starts from. Leave the batch size of its inputs
               open, so that batches of any size can be dealt out.
    loss       a Keras loss, its name, or a function (targets, outputs) of one value, or one for each example, which are
               averaged; None for the loss that the model is compiled with.
    optimizer  a `keras.optimizers.Optimizer` or the name of one; one that has trained this model already, as after
               `keras.models.load_model`, continues from there. None for that of a compiled model.
    strategy   what `autosync tune` wrote: a file, its document, or a `Strategy`.
    cluster    None for the Ray cluster in $RAY_ADDRESS, or a local one that is started and ended with the trainer; the
               address of another; a cluster file (.yaml) or a `ClusterSpec` whose nodes are Ray's.
    backend    'ray', or 'local' for logical devices of this process (see `use_logical_devices`).
    workers    worker processes; by default as many as the strategy names on one node, else one a node.
    example    a batch (inputs, targets) to capture the model by. Without it the first batch to train on is used, and
               what does not fit is said then.
    metrics    Keras metrics or their names, as for `keras.Model.compile`, computed on the workers while training, each
               example's before its step; see `Trainer.metrics`.

    Raises `SpecError`, `ClusterError`, `ModelError` or `TrainingError`, with no process left behind.
    """
    check_backend()
    check_model(model, loss, optimizer)
    wanted = read_strategy(strategy)
    place = open_place(Where(cluster, backend, workers), workers_named(wanted))
    objective = Objective(loss, metrics)
    try:
        check_devices(wanted, place.cluster)
        trainer = Trainer(model, wanted, place, lambda batch: _own_task(model, objective, optimizer, batch), objective)
        if example is not None:
            trainer.prepare(example)
    except BaseException:
        place.close()
        raise
    return trainer


def check_model(model: Any, loss: Any, optimizer: Any) -> None:
    """Raise `ModelError` for what is no Keras model, loss or optimizer, before any process is started."""
    from autosync.engine.zoo.own_loss import loss_function
    from autosync.engine.zoo.own_parts import CALLED, resolved

    loss, _ = resolved(model, loss, optimizer)
    loss_function(str(model.name), loss, CALLED[1], model=model)


def distribute_task(task_of: Callable[[ClusterSpec], TrainingTask], strategy: Strategy, where: Where) -> Trainer:
    """A trainer of a model of the zoo, on the batches it draws by itself; ready to train. Raises as `distribute` does.

    `task_of(cluster)` is called once the cluster is known.
    """
    place = open_place(where, workers_named(strategy))
    try:
        check_devices(strategy, place.cluster)
        task = task_of(place.cluster)
        trainer = Trainer(task.model, strategy, place, lambda _: task)
        trainer.prepare(None)
    except BaseException:
        place.close()
        raise
    return trainer


def _own_task(model: Any, objective: Objective, optimizer: Any, batch: Any) -> TrainingTask:
    from autosync.engine.zoo.own_task import OwnParts, own_task

    BatchForm.of(batch)  # says what is wrong with a batch in the words of training
    example = as_arrays(batch)
    name = str(getattr(model, "name", "model"))
    sizes = {tensor.shape[0] for tensor in _inputs(model)} - {None}
    parts = OwnParts(
        model,
        objective.loss,
        example,
        optimizer,
        any_batch_size=not sizes,
        most_examples=min(sizes, default=None),
        metrics=objective.metrics,
        weighted=isinstance(example[1], Weighted),
    )
    return own_task(name, parts)


def _inputs(model: Any) -> list[Any]:
    """A functional model's symbolic inputs; none for a model that is a class of its own, or not built yet."""
    inputs = getattr(model, "inputs", None) or []
    return [each for each in (inputs if isinstance(inputs, list | tuple) else [inputs]) if hasattr(each, "shape")]
