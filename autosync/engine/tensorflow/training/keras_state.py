"""Converts a training step's state to and from a Keras model and its optimizer, and saves and loads Keras files."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import keras
import numpy as np

from autosync.engine.core.step_state import StepState
from autosync.engine.tensorflow.capture.captured import CapturedModel
from autosync.engine.tensorflow.capture.optimizer import LOSS_SCALE, inner_optimizer
from autosync.engine.tensorflow.capture.optimizer_twin import unbuilt
from autosync.engine.tensorflow.capture.variables import hidden_variables, names_of, state_variables
from autosync.engine.tensorflow.training.watched import Watched
from autosync.errors import ModelError, TrainingError
from autosync.numeric import AnyArray
from autosync.spec import said


@final
class KerasState:
    """Writes a step's state into `model` and `optimizer`, and reads it from there.

    Variables keep the order in which they were captured, because several can have the same path. An optimizer's slots
    have the order in which Keras creates them, which is the same for one variable and for many. Every replica has its
    own untrained state, and Keras has it once: floating-point state becomes the mean over replicas, and whole numbers
    and seeds are those of replica 0. State of single examples, which a recurrent layer carries on, stays with the
    replicas.
    """

    def __init__(
        self, model: Any, optimizer: Any, captured: CapturedModel, loss: Any = None, metrics: Any = ()
    ) -> None:
        """Compile `model`, unless it is compiled, with `optimizer`, `metrics`, and with `loss` if that is a Keras loss.

        Raises `ModelError` if the optimizer was built for other variables.
        """
        from autosync.engine.tensorflow.training.several_losses import is_known_to_keras, loss_weights_of

        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.metrics = metrics or None
        self._captured = captured
        inner = inner_optimizer(optimizer)
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        names = names_of(model.trainable_variables)
        trainable = dict(zip(names, model.trainable_variables, strict=True))
        places = _slot_places(inner, trainable)
        held = list(inner.variables)
        of_slots = {place for of_variable in places.values() for place in of_variable}
        if len(held) <= max(of_slots, default=-1) or any(
            tuple(held[place].shape) != tuple(variable.shape)
            for name, variable in trainable.items()
            for place in places[name]
        ):
            raise ModelError(
                f"The optimizer must be unbuilt or built for the variables of this model, but {optimizer.name!r} was "
                "built for others; give a new optimizer."
            )
        self._slots = {name: [held[place] for place in of_variable] for name, of_variable in places.items()}
        trained = captured.spec.by_name
        self._trained = {name: variable for name, variable in trainable.items() if name in trained}
        idle = [variable for name, variable in trainable.items() if name not in trained]
        self._untrained = [*idle, *state_variables(model)]
        self._of_examples = {id(variable) for variable in hidden_variables(model)}
        if LOSS_SCALE in captured.state_names:
            self._untrained.append(_loss_scale(optimizer))
        self._scalars = [variable for place, variable in enumerate(held) if place not in of_slots]
        if getattr(model, "optimizer", None) is not optimizer:
            kept = loss if is_known_to_keras(loss) else None
            weights = loss_weights_of(model, kept)
            model.compile(optimizer, kept, weights, metrics=metrics or None, auto_scale_loss=False)
        self._rate = inner._learning_rate
        self._trainable = {id(variable) for variable in model.trainable_variables}
        self._weights_and_slots = [
            *self._trained.values(),
            *(slot for name in self._trained for slot in self._slots[name]),
        ]
        self._watched = Watched([*self._weights_and_slots, *self._scalars, *self._untrained])

    def read(self, base: StepState) -> StepState:
        """Return the state in Keras's objects, to continue from. Every replica gets its own dropout seed.

        `base` supplies the parts that Keras does not know: the number of synthetic batches drawn, and the compressors'
        memory.
        """
        names = [variable.name for variable in self._captured.spec.variables]
        scalars = [np.asarray(scalar.numpy()) for scalar in self._scalars]
        state = [np.asarray(variable.numpy()) for variable in self._untrained]
        return replace(
            base,
            own=(),
            values={name: np.asarray(self._trained[name].numpy()) for name in names},
            slots={name: tuple(np.asarray(slot.numpy()) for slot in self._slots[name]) for name in names},
            scalars={
                dtype: tuple(scalar.astype(old.dtype) for scalar, old in zip(scalars, before, strict=True))
                for dtype, before in base.scalars.items()
            },
            replica_state=tuple(
                tuple(
                    array + array.dtype.type(replica) if is_seed else array
                    for array, is_seed in zip(state, self._captured.seeds, strict=True)
                )
                for replica in range(len(base.replica_state))
            ),
        )

    def merge(self, state: StepState, changed: set[int]) -> StepState:
        """Return `state` with the contents of the variables whose `id`s are `changed`.

        Weights or slots that were set apply to all replicas, so no replica keeps its own values then.
        """
        held = self.read(state)
        untrained = [id(variable) in changed for variable in self._untrained]
        return replace(
            state,
            values={
                name: _newer(self._trained[name], changed, held.values[name], old) for name, old in state.values.items()
            },
            slots={
                name: tuple(
                    _newer(slot, changed, new, old)
                    for slot, new, old in zip(self._slots[name], held.slots[name], before, strict=True)
                )
                for name, before in state.slots.items()
            },
            scalars={
                dtype: tuple(
                    _newer(scalar, changed, new, old)
                    for scalar, new, old in zip(self._scalars, held.scalars[dtype], before, strict=True)
                )
                for dtype, before in state.scalars.items()
            },
            replica_state=tuple(
                tuple(new if is_new else old for new, old, is_new in zip(present, before, untrained, strict=True))
                for present, before in zip(held.replica_state, state.replica_state, strict=True)
            ),
            own=() if changed & {id(variable) for variable in self._weights_and_slots} else state.own,
        )

    def changes(self, is_stale: bool) -> set[int]:
        """Return the `id`s of variables that were set since `write` or `note`; see `Watched.changed`.

        Raises `TrainingError` for other changes to the model or optimizer.
        """
        self._check_kind()
        return self._watched.changed(is_stale)

    def note(self) -> None:
        """Note the present contents of all variables as the contents from which training continues."""
        self._watched.note()

    def _check_kind(self) -> None:
        """Raise `TrainingError` if the model or optimizer is no longer the one that was captured."""
        if getattr(self.model, "optimizer", None) is not self.optimizer:
            raise TrainingError(
                "A model must keep its optimizer while it is trained, but it was compiled again; make a new trainer."
            )
        if self._rate_variable() is not self._rate:
            raise TrainingError(
                "A learning rate must stay a number, or the same schedule, while a model is trained; "
                "make a new trainer with the other schedule."
            )
        if {id(variable) for variable in self.model.trainable_variables} != self._trainable:
            raise TrainingError(
                "A model must keep its trainable variables while it is trained, but `trainable` of the model or of a "
                "layer was changed; make a new trainer."
            )

    def write(self, state: StepState) -> None:
        """Write `state` into model and optimizer."""
        for name, variable in self._trained.items():
            variable.assign(state.values[name])
            for slot, array in zip(self._slots[name], state.slots[name], strict=True):
                slot.assign(array)
        for scalar, array in zip(self._scalars, next(iter(state.scalars.values())), strict=True):
            scalar.assign(array.astype(str(scalar.dtype)))
        for index, variable in enumerate(self._untrained):
            of_replicas = [arrays[index] for arrays in state.replica_state]
            if id(variable) not in self._of_examples or len(of_replicas) == 1:
                variable.assign(_in_one(of_replicas, self._captured.seeds[index]))
        self.note()

    def save(self, file: Path) -> None:
        """Save model and optimizer with Keras; `file` ends in .keras. Raises `ModelError` or `OSError`."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*compile metrics have yet to be built.*")
            try:
                self.model.save(file)
            except (NotImplementedError, TypeError, ValueError) as error:
                reason = said(error)
                raise ModelError(f"A model must be one that Keras can save, but Keras says: {reason}") from error

    def load(self, file: Path) -> None:
        """Load weights and optimizer state from a file that Keras wrote. Raises `ModelError`."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # Keras only warns if the optimizer does not fit
            try:
                self.model.load_weights(file)
            except Exception as error:  # any error of Keras, h5py or zipfile
                reason = said(error)
                raise ModelError(
                    f"{str(file)!r} must be a .keras file of this model with its optimizer, but: {reason}"
                ) from error

    @contextmanager
    def compiled_with_loss(self) -> Iterator[Any]:
        """In the block, compile the model with its loss; outside, a user's own loss would keep Keras from saving."""
        if self.loss is None or getattr(self.model, "loss", None) is not None:
            yield self.model
            return
        arguments = {"optimizer": self.optimizer, "metrics": self.metrics, "auto_scale_loss": False}
        self.model.compile(loss=self.loss, **arguments)
        try:
            yield self.model
        finally:
            self.model.compile(loss=None, **arguments)

    @property
    def iterations(self) -> int:
        """The number of steps that the optimizer has made."""
        return int(inner_optimizer(self.optimizer).iterations.numpy())

    def _rate_variable(self) -> Any:
        """Return the variable of the learning rate, or the schedule if a schedule decides."""
        return inner_optimizer(self.optimizer)._learning_rate  # the property would compute a schedule's rate


def _newer(variable: Any, changed: set[int], new: AnyArray, old: AnyArray) -> AnyArray:
    """Return `new` if the `id` of `variable` is among the `changed` ones, else `old`."""
    return new if id(variable) in changed else old


def _slot_places(optimizer: Any, variables: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return, by variable name, the positions of the variable's slots among the optimizer's variables.

    Keras does not tell them, so this function builds a twin of the optimizer and records the slots it creates.
    """
    twin = unbuilt(optimizer)
    made: list[tuple[int, Any]] = []
    make = twin.add_variable_from_reference

    def make_and_record(reference_variable: Any, *arguments: Any, **named: Any) -> Any:
        made.append((id(reference_variable), make(reference_variable, *arguments, **named)))
        return made[-1][1]

    twin.add_variable_from_reference = make_and_record
    twin.build(list(variables.values()))
    number = {id(variable): place for place, variable in enumerate(twin.variables)}
    return {
        name: [number[id(slot)] for reference, slot in made if reference == id(variable)]
        for name, variable in variables.items()
    }


def _loss_scale(optimizer: Any) -> Any:
    """Return the variable of the loss scale. Keras has one for a dynamic scale; a fixed scale gets a new variable."""
    if inner_optimizer(optimizer) is not optimizer:
        return optimizer.dynamic_scale
    return keras.Variable(optimizer.loss_scale_factor or 1.0, dtype="float32", trainable=False)


def _in_one(of_replicas: Sequence[AnyArray], is_seed: bool) -> AnyArray:
    """Combine the replicas' copies to the one array that Keras holds."""
    first = of_replicas[0]
    if is_seed or first.dtype.kind in "iub" or all(np.array_equal(first, array) for array in of_replicas):
        return first
    return np.mean([array.astype("float64") for array in of_replicas], axis=0).astype(first.dtype)
