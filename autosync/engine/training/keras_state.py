"""A training step's state in Keras' own objects: a model and its optimizer, and the files Keras makes of them."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from autosync.engine.capture.captured import CapturedModel
from autosync.engine.capture.optimizer import LOSS_SCALE, inner_optimizer
from autosync.engine.step.step_state import StepState
from autosync.errors import ModelError

Array = npt.NDArray[Any]


@final
class KerasState:
    """Writes a step's state into `model` and `optimizer`, and reads it from there.

    Variables are told apart by their paths. The order of an optimizer's slots is that in which Keras makes them, for
    one variable as for many. State that is not trained is kept by every replica and once by Keras: moving averages
    become their mean over replicas, and the others are replica 0's.
    """

    def __init__(
        self, model: Any, optimizer: Any, captured: CapturedModel, loss: Any = None, metrics: Any = ()
    ) -> None:
        """Compile `model`, unless it already is, with `optimizer`, `metrics`, and `loss` if that is Keras' or its name.

        Raises `ModelError` when the optimizer has been built for other variables.
        """
        import keras

        self.model = model
        self.optimizer = optimizer
        self._captured = captured
        inner = inner_optimizer(optimizer)
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        places = _slot_places(inner, model.trainable_variables)
        held = list(inner.variables)
        of_slots = {place for each in places.values() for place in each}
        if len(held) <= max(of_slots, default=-1) or any(
            tuple(held[place].shape) != tuple(variable.shape)
            for variable in model.trainable_variables
            for place in places[variable.path]
        ):
            raise ModelError(
                f"The optimizer must be unbuilt or built for the variables of this model, but {optimizer.name!r} was "
                "built for others; give a fresh one."
            )
        self._slots = {path: [held[place] for place in each] for path, each in places.items()}
        self._loss_scale = _loss_scale(optimizer)
        self._scalars = [each for place, each in enumerate(held) if place not in of_slots]
        if getattr(model, "optimizer", None) is not optimizer:
            is_keras_loss = isinstance(loss, str | keras.losses.Loss)
            kept = loss if is_keras_loss else None
            model.compile(optimizer=optimizer, loss=kept, metrics=metrics or None, auto_scale_loss=False)

    def read(self, base: StepState) -> StepState:
        """The state to go on from what Keras' objects hold. Every replica gets a dropout seed of its own.

        What Keras does not know is taken from `base`: synthetic batches drawn, what compressors remember.
        """
        names = [each.name for each in self._captured.spec.variables]
        values = {each.path: each for each in self.model.trainable_variables}
        scalars = [np.asarray(each.numpy()) for each in self._scalars]
        state = [np.asarray(each.numpy()) for each in self._untrained()]
        return replace(
            base,
            own=(),
            values={name: np.asarray(values[name].numpy()) for name in names},
            slots={name: tuple(np.asarray(each.numpy()) for each in self._slots[name]) for name in names},
            scalars={
                dtype: tuple(each.astype(old.dtype) for each, old in zip(scalars, before, strict=True))
                for dtype, before in base.scalars.items()
            },
            replica_state=tuple(
                tuple(
                    each + each.dtype.type(replica) if is_seed else each
                    for each, is_seed in zip(state, self._captured.seeds, strict=True)
                )
                for replica in range(len(base.replica_state))
            ),
        )

    def write(self, state: StepState) -> None:
        """Let model and optimizer hold `state`."""
        for variable in self.model.trainable_variables:
            if variable.path in state.values:
                variable.assign(state.values[variable.path])
                for slot, array in zip(self._slots[variable.path], state.slots[variable.path], strict=True):
                    slot.assign(array)
        for scalar, array in zip(self._scalars, next(iter(state.scalars.values())), strict=True):
            scalar.assign(array.astype(str(scalar.dtype)))
        for index, variable in enumerate(self._untrained()):
            of_replicas = [each[index] for each in state.replica_state]
            variable.assign(_in_one(of_replicas, self._captured.seeds[index]))

    def save(self, file: Path) -> None:
        """Write model and optimizer as Keras does; `file` ends in .keras. Raises `ModelError` or `OSError`."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*compile metrics have yet to be built.*")
            try:
                self.model.save(file)
            except (NotImplementedError, TypeError, ValueError) as error:
                reason = " ".join(str(error).split())
                raise ModelError(f"A model must be one that Keras can save, but Keras says: {reason}") from error

    def load(self, file: Path) -> None:
        """Take weights and optimizer state from a file that Keras wrote. Raises `ModelError`."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # Keras only warns of an optimizer that does not fit
            try:
                self.model.load_weights(file)
            except Exception as error:  # whatever Keras, h5py and zipfile raise
                reason = " ".join(str(error).split())
                raise ModelError(
                    f"{str(file)!r} must be a .keras file of this very model with its optimizer, but: {reason}"
                ) from error

    @property
    def learning_rate(self) -> float | None:
        """The learning rate that a callback may set; None where a schedule decides."""
        import keras

        rate = self._rate_variable()
        return float(rate.numpy()) if isinstance(rate, keras.Variable) else None

    @property
    def iterations(self) -> int:
        """Steps that the optimizer has made."""
        return int(inner_optimizer(self.optimizer).iterations.numpy())

    def with_learning_rate(self, state: StepState) -> StepState:
        """`state` with the learning rate that the optimizer has now."""
        rate = next(index for index, each in enumerate(self._scalars) if each is self._rate_variable())
        scalars = {
            dtype: tuple(
                np.asarray(self.learning_rate, each.dtype) if index == rate else each
                for index, each in enumerate(before)
            )
            for dtype, before in state.scalars.items()
        }
        return replace(state, scalars=scalars)

    def _rate_variable(self) -> Any:
        """The variable that holds the learning rate; where a schedule decides, that schedule."""
        return inner_optimizer(self.optimizer)._learning_rate  # the property would compute a schedule's rate

    def _untrained(self) -> list[Any]:
        """Variables that replicas keep for themselves, in the order of the captured state."""
        by_path = {each.path: each for each in self.model.variables}
        if LOSS_SCALE in self._captured.state_names:
            by_path[LOSS_SCALE] = self._loss_scale
        return [by_path[name] for name in self._captured.state_names]


def _slot_places(optimizer: Any, variables: Sequence[Any]) -> dict[str, list[int]]:
    """The places of each path's slots among the optimizer's variables: found out on a twin's building."""
    twin = type(optimizer).from_config(optimizer.get_config())
    made: list[tuple[str, Any]] = []
    make = twin.add_variable_from_reference

    def noted(reference_variable: Any, *arguments: Any, **named: Any) -> Any:
        made.append((reference_variable.path, make(reference_variable, *arguments, **named)))
        return made[-1][1]

    twin.add_variable_from_reference = noted
    twin.build(list(variables))
    number = {id(each): place for place, each in enumerate(twin.variables)}
    places: dict[str, list[int]] = {each.path: [] for each in variables}
    for path, slot in made:
        places[path].append(number[id(slot)])
    return places


def _loss_scale(optimizer: Any) -> Any:
    """The variable that holds the loss scale: a dynamic one is Keras' own, a fixed one is nobody's."""
    import keras

    if inner_optimizer(optimizer) is not optimizer:
        return optimizer.dynamic_scale
    return keras.Variable(optimizer.loss_scale_factor or 1.0, dtype="float32", trainable=False)


def _in_one(of_replicas: Sequence[Array], is_seed: bool) -> Array:
    """The one array that Keras is given in place of the replicas' own ones."""
    first = of_replicas[0]
    if is_seed or first.dtype.kind in "iub" or all(np.array_equal(first, each) for each in of_replicas):
        return first
    return np.mean([each.astype("float64") for each in of_replicas], axis=0).astype(first.dtype)
