"""The model in the caller's process, kept in step with the training on the workers in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from autosync.train.running import Running

if TYPE_CHECKING:
    from autosync.engine.training.keras_state import KerasState


@final
class Mirror:
    """Shows training's state in the Keras model, and takes over the variables that a caller or a callback sets there.

    A set variable (a weight, a slot, the learning rate) wins over training's, also while the others are out of date.
    """

    def __init__(self, running: Running, keras: KerasState) -> None:
        self._running = running
        self.keras = keras
        self._shown_at: int | None = running.progress.steps

    @property
    def model(self) -> Any:
        return self.keras.model

    def show(self) -> None:
        """Let the model hold training's state; variables set in the model before win. Raises `TrainingError`."""
        self.take_over()
        if self._is_stale:
            self.keras.write(self._running.state())
            self._shown_at = self._running.progress.steps

    def take_over(self) -> None:
        """Continue training from the variables set in the model, if any. Raises `TrainingError`."""
        if changed := self.keras.changed(self._is_stale):
            self._running.load(self.keras.merged(self._running.state(), changed))
            self.keras.note()

    @property
    def _is_stale(self) -> bool:
        """Whether steps were taken since the model was shown training's state."""
        return self._shown_at != self._running.progress.steps

    def load(self, state: Any) -> None:
        """Continue from `state`, which was read from the model as it is now."""
        self._running.load(state)
        self.keras.note()
        self._shown_at = None  # it lacks, for example, the mean of the replicas' statistics
