"""Keeps the caller's Keras model and the training state on the workers in sync, in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from autosync.train.running import Running

if TYPE_CHECKING:
    from autosync.engine.tensorflow.training.keras_state import KerasState


@final
class Mirror:
    """Writes training's state to the Keras model, and adopts variables that the caller or a callback sets in the model.

    A variable set in the model (a weight, a slot, the learning rate) wins over training's value, even while the model's
    remaining variables are out of date.
    """

    def __init__(self, running: Running, keras: KerasState) -> None:
        self._running = running
        self.keras = keras
        self._shown_at: int | None = running.progress.steps

    @property
    def model(self) -> Any:
        return self.keras.model

    def show(self) -> None:
        """Write training's state to the model; variables set in the model earlier win. Raises `TrainingError`."""
        self.take_over()
        if self._is_stale:
            self.keras.write(self._running.state())
            self._shown_at = self._running.progress.steps

    def take_over(self) -> None:
        """Continue training with the variables that were set in the model, if any. Raises `TrainingError`."""
        if changed := self.keras.changes(self._is_stale):
            self._running.load(self.keras.merge(self._running.state(), changed))
            self.keras.note()

    @property
    def _is_stale(self) -> bool:
        """True if steps were taken since training's state was written to the model."""
        return self._shown_at != self._running.progress.steps

    def load(self, state: Any) -> None:
        """Continue from `state`, which was read from the current model."""
        self._running.load(state)
        self.keras.note()
        self._shown_at = None  # the model lacks some state, for example the mean of the replicas' statistics
