"""The trainer of a PyTorch module: trains it on the batches of its model function, as a strategy describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

from autosync.engine.pytorch.capture import CapturedModule, profile
from autosync.engine.pytorch.checkpoint import checkpoint_bytes, read_checkpoint
from autosync.errors import TrainingError, WriteError
from autosync.files import make_folder, read_whole, write_atomically
from autosync.spec import ClusterSpec, Strategy, check_strategy
from autosync.train.given_strategy import check_devices, rename_for, workers_named
from autosync.train.history import History
from autosync.train.place import PACED, PlaceOptions, TrainingPlace, open_place
from autosync.train.running import BatchSizes, Running, TrainingProgress
from trials.signals import ctrl_c_waits


@final
class ModuleTrainer:
    """Trains a captured module on a place. It is a context manager, and `close` ends its processes."""

    def __init__(self, captured: CapturedModule, strategy: Strategy, place: TrainingPlace) -> None:
        """Place the module, ready for the first step. Raises `SpecError`, `ClusterError` or `TrainingError`."""
        self.cluster = place.cluster
        self.notes: tuple[str, ...] = place.notes
        if self.cluster.paced:
            captured = profile(captured)  # a paced pass follows the measured profile
            self.notes += (PACED,)
        self.spec = captured.spec
        self.strategy = rename_for(strategy, [variable.name for variable in self.spec.variables])
        check_strategy(self.strategy, self.spec, self.cluster)
        sizes = BatchSizes(len(self.strategy.replicas), self.spec.batch_size)
        self._captured = captured
        self._place = place
        self._progress = TrainingProgress()
        self._running = Running(place.open(captured, self.strategy), None, sizes, self._progress)
        self.notes += (*filter(None, [place.exposure]), *captured.notes)

    def __enter__(self) -> ModuleTrainer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def steps(self) -> int:
        """Finished steps, including those before a restored checkpoint."""
        return self._progress.steps

    @property
    def history(self) -> History:
        """Loss, examples and seconds of every step of this trainer."""
        return self._progress.history

    def train_own(self, steps: int, callbacks: Sequence[Any]) -> None:
        """Train `steps` steps on the batches of the model function. Raises `TrainingError`.

        `callbacks` have the methods `set_trainer`, and `on_train_batch_end` as in Keras.
        """
        for callback in callbacks:
            callback.set_trainer(self)
        for number in range(steps):
            loss = self._running.synthetic_steps()
            for callback in callbacks:
                callback.on_train_batch_end(number, {"loss": loss})

    def save(self, path: Path) -> Path:
        """Write parameters, buffers and the rest of training's state to `path`, replaced atomically.

        The tensors have the module's own names, so `safetensors.torch.load_model` reads them. Raises `TrainingError`.
        """
        with ctrl_c_waits():
            data = checkpoint_bytes(self._running.state(), self._captured)
            try:
                make_folder(path.parent)
                write_atomically(path, data, durable=True)
            except WriteError as error:
                raise TrainingError(f"The checkpoint {error}") from None
            self._progress.last_checkpoint = path
        return path

    def restore(self, path: Path) -> None:
        """Resume from `path`, which `save` wrote, to the bit. Raises `TrainingError`."""
        try:
            data = read_whole(path)
        except OSError as error:
            raise TrainingError(f"The checkpoint {str(path)!r} cannot be read: {error.strerror or error}.") from None
        state = read_checkpoint(data, str(path), self._captured)
        self._running.load(state)
        self._progress.steps = state.replica_steps[0]
        self._progress.last_checkpoint = path

    def pids(self) -> dict[str, int]:
        """Return the ids of the processes that train, by role; empty on logical devices."""
        return self._running.pids()

    def close(self) -> None:
        """End every process that was started for this trainer; a second call does nothing."""
        self._running.close()
        self._place.close()


def distribute_module(
    capture_on: Callable[[ClusterSpec], CapturedModule], strategy: Strategy, where: PlaceOptions
) -> ModuleTrainer:
    """Return a trainer of the module that `capture_on(cluster)` captures once the cluster is known.

    Raises `SpecError`, `ClusterError`, `ModelError` or `TrainingError`, with no process left behind.
    """
    place = open_place(where, workers_named(strategy))
    try:
        check_devices(strategy, place.cluster)
        return ModuleTrainer(capture_on(place.cluster), strategy, place)
    except BaseException:
        place.close()
        raise
