"""`distribute`: trains the user's own Keras model under a strategy."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from autosync.baselines import baselines_for
from autosync.engine.core.registry import check_engine_installed
from autosync.engine.tensorflow.loading import check_backend
from autosync.spec import ClusterSpec, Strategy
from autosync.train.data import BatchForm, Weighted, as_arrays
from autosync.train.given_strategy import check_devices, read_strategy_or_baseline, workers_named
from autosync.train.place import PlaceOptions, open_place
from autosync.train.running import Objective
from autosync.train.trainer import Trainer

if TYPE_CHECKING:
    from autosync.engine.tensorflow.capture.task import TrainingTask


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
    """Return a trainer of `model` on `cluster` that synchronizes gradients as `strategy` describes.

    Args:
        model: a `keras.Model`; training starts from its weights. Leave the batch size of its inputs open, so that
            batches of any size can be split over the replicas.
        loss: a Keras loss, its name, or a function (targets, outputs). The function returns one value, or a value for
            each example, which are averaged. None for the loss that the model is compiled with.
        optimizer: a `keras.optimizers.Optimizer` or the name of one. An optimizer that has trained this model already,
            as after `keras.models.load_model`, resumes. None for the optimizer of a compiled model.
        strategy: a strategy file, as `autosync tune` writes it, its JSON document, a `Strategy`, or the name of a
            baseline such as "byteps" (`autosync.baselines.baselines_for` has all names).
        cluster: None for the Ray cluster in $RAY_ADDRESS, or a local one that is started and ended with the trainer;
            the address of another cluster; a cluster file (.yaml) or a `ClusterSpec` whose nodes are Ray's.
        backend: "ray", or "local" for logical devices of this process (see `use_logical_devices`).
        workers: worker processes; by default as many as the strategy names on one node, else one a node.
        example: a batch (inputs, targets) for capturing the model. By default the first training batch is used, and
            errors are raised only then.
        metrics: Keras metrics or their names, as for `keras.Model.compile`, computed on the workers during training,
            for each example before its step; see `Trainer.metrics`.

    Raises:
        SpecError: the strategy does not fit the model or the cluster.
        ClusterError: nodes or devices are missing or unreachable.
        ModelError: the model, its loss or its optimizer cannot be captured.
        TrainingError: a batch does not fit, or a worker is lost. No process is left behind after an error.
    """
    check_engine_installed()
    check_backend()
    check_model(model, loss, optimizer)
    read = read_strategy_or_baseline(strategy, "tensorflow")
    wanted = baselines_for("tensorflow")[read] if isinstance(read, str) else read
    place = open_place(
        PlaceOptions(cluster, backend, workers), workers_named(wanted) if isinstance(wanted, Strategy) else None
    )
    objective = Objective(loss, metrics)
    try:
        if isinstance(wanted, Strategy):
            check_devices(wanted, place.cluster)
        trainer = Trainer(
            model, wanted, place, lambda batch: _task_of_model(model, objective, optimizer, batch), objective
        )
        if example is not None:
            trainer.prepare(example)
    except BaseException:
        place.close()
        raise
    return trainer


def check_model(model: Any, loss: Any, optimizer: Any) -> None:
    """Raise `ModelError` before any process is started if the model, loss or optimizer is none that Keras accepts."""
    from autosync.zoo.own_loss import loss_function
    from autosync.zoo.own_parts import CALLED, resolve_parts

    loss, _ = resolve_parts(model, loss, optimizer)
    loss_function(str(model.name), loss, CALLED[1], model=model)


def distribute_task(task_of: Callable[[ClusterSpec], TrainingTask], strategy: Strategy, where: PlaceOptions) -> Trainer:
    """Return a trainer of a model of the zoo, ready to train on the batches the model generates. Raises as
    `distribute`.

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


def _task_of_model(model: Any, objective: Objective, optimizer: Any, batch: Any) -> TrainingTask:
    from autosync.zoo.own_task import OwnParts, user_task

    BatchForm.of(batch)  # reports an invalid batch in the words of training
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
    return user_task(name, parts)


def _inputs(model: Any) -> list[Any]:
    """The symbolic inputs of a functional model; empty for a subclassed model or a model that is not built yet."""
    inputs = getattr(model, "inputs", None) or []
    return [tensor for tensor in (inputs if isinstance(inputs, list | tuple) else [inputs]) if hasattr(tensor, "shape")]
