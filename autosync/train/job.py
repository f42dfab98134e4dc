"""One run of the command: a model of the zoo, or one's own, trained on the batches it draws by itself."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from rich.console import Console

from autosync.engine.capture_apart import captured_apart
from autosync.engine.loading import load_tensorflow, quiet_log
from autosync.engine.zoo import build_task, check_model_name
from autosync.errors import TrainingError, WriteError
from autosync.files import appended_to, check_inside, made_folder, write_atomically
from autosync.runs.claim import claimed
from autosync.spec import ClusterSpec, Strategy, cut, read_json
from autosync.terminal import Terminal, say
from autosync.train.checkpoint_folder import Checkpoints
from autosync.train.data import Synthetic
from autosync.train.distribution import distribute_task
from autosync.train.given_strategy import read_strategy
from autosync.train.place import Where
from autosync.train.trainer import Trainer
from autosync.tune.ran_on import emulated_cluster
from autosync.words.commands import RanOn, resume_command
from autosync.words.quantities import model_in_words
from autosync.words.strategy import statistics_in_words
from trials.cluster.file import read_cluster_file
from trials.opening import model_line, model_on
from trials.signals import ctrl_c_waits
from trials.workers.memory import memory_in_words


@final
@dataclass(frozen=True)
class TrainingDirectory:
    """`run.json` (model and strategy), `loss.jsonl` (a line for every line printed) and `checkpoints`."""

    path: Path

    @classmethod
    def open(cls, path: Path, model: str, strategy: Strategy, resume: bool) -> TrainingDirectory:
        """A new directory, or with `resume` that of a run of the same model and strategy. Raises `TrainingError`."""
        run = cls(path)
        file = path / "run.json"
        if resume and not file.exists():
            raise TrainingError(f"--resume needs a run to go on from, but {path} holds none; leave it out.")
        if file.exists() and not resume:
            raise TrainingError(f"--out {path} holds a run already; add --resume to go on, or name another.")
        if resume:
            before = _asked_before(file)
            for name, now in _identity(model, strategy).items():
                if before.get(name) != now:
                    was = cut(str(before.get(name)))
                    raise TrainingError(f"--resume goes on with the same --{name}, but it was {was} and now is {now}.")
        return run

    def begin(self, model: str, strategy: Strategy) -> None:
        """Make the directory and write `run.json`. Raises `TrainingError`."""
        try:
            made_folder(self.path)
            write_atomically(self.path / "run.json", json.dumps(_identity(model, strategy)))
        except WriteError as error:
            raise TrainingError(f"--out {error}") from None

    def checkpoints(self, every: int) -> Checkpoints:
        """The folder of checkpoints. Raises `WriteError` if it is a link out of this directory."""
        return Checkpoints(check_inside(self.path / "checkpoints"), every)

    def add_line(self, line: dict[str, Any]) -> None:
        """Append to `loss.jsonl`. Raises `WriteError`."""
        with appended_to(self.path / "loss.jsonl") as file:
            file.write((json.dumps(line) + "\n").encode())


def _asked_before(file: Path) -> dict[str, Any]:
    try:
        return read_json(file, str(file), through_links=False)
    except OSError as error:
        raise TrainingError(
            f"--resume needs a run to go on from, but {file} cannot be read: {error.strerror}; name another folder."
        ) from None


def _identity(model: str, strategy: Strategy) -> dict[str, Any]:
    """The fields that a resumed run must share with the run that it continues."""
    return {"model": model, "strategy": strategy.digest}


FAILED, INTERRUPTED = 1, 130
"""Exit statuses: training ended early, and Ctrl-C, as shells have it."""


@dataclass(frozen=True)
class TrainOptions:
    """What the command was asked. `steps` are those of the whole run, a resumed one's first part included.

    `capture_seconds` are what building and capturing a model of one's own may take.
    """

    model: str
    strategy: Path
    steps: int
    out: Path
    checkpoint_every: int
    log_every: int
    resume: bool
    capture_seconds: float
    where: Where


def train(options: TrainOptions, out_is_default: bool = False) -> int:
    """Train as `options` say and print the progress; the exit status. Raises `AutosyncError` if it cannot begin.

    With `out_is_default` the folder is named after the time, so another name does as well.
    """
    with claimed(options.out, is_default=out_is_default, resume=options.resume) as out:
        return _train(replace(options, out=out))


def _train(options: TrainOptions) -> int:
    """`train` in a folder that is claimed."""
    console = Terminal()
    check_model_name(options.model)
    strategy = read_strategy(options.strategy)
    directory = TrainingDirectory.open(options.out, options.model, strategy, options.resume)
    checkpoints = directory.checkpoints(options.checkpoint_every)
    if isinstance(options.where.cluster, Path):
        read_cluster_file(options.where.cluster)  # what is wrong with it is told before TensorFlow is loaded
    with ExitStack() as opened:
        with quiet_log():
            if ":" in options.model:
                # This process needs the Keras model itself, whose function it could not stop: it is tried out first.
                captured_apart(options.model, options.capture_seconds, meanwhile=load_tensorflow)
            load_tensorflow()
            placed = distribute_task(lambda cluster: _task(options.model, cluster), strategy, options.where)
            trainer = opened.enter_context(placed)
        directory.begin(options.model, strategy)
        for line in (*trainer.notes, model_line(options.model, trainer.cluster), *_in_words(trainer)):
            console.print(line, soft_wrap=True)
        _take_up(trainer, checkpoints, options, console)
        return _steps(trainer, checkpoints, options, _Printer(console, directory, options.log_every))


def _task(model: str, cluster: ClusterSpec) -> Any:
    """Build the task, once the cluster is known. This process only captures: GPUs belong to the workers."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return build_task(model_on(model, cluster))


def _in_words(trainer: Trainer) -> tuple[str, ...]:
    assert trainer.spec is not None, "prepared by distribute_task"
    replicas, warning = trainer.strategy.replicas, statistics_in_words(trainer.strategy)
    of_replicas = f"{len(replicas)} replicas: {', '.join(replicas)}."
    return model_in_words(trainer.spec), memory_in_words(trainer.spec), of_replicas, *([warning] if warning else [])


def _take_up(trainer: Trainer, checkpoints: Checkpoints, options: TrainOptions, console: Console) -> None:
    latest = checkpoints.latest() if options.resume else None
    if latest is not None:
        trainer.restore(latest)
        console.print(f"Going on after step {trainer.steps} from {latest}.", soft_wrap=True)
    elif options.resume:
        console.print("The run has no checkpoint yet, so it begins at step 0.")


def _steps(trainer: Trainer, checkpoints: Checkpoints, options: TrainOptions, printer: _Printer) -> int:
    console, left = printer.console, options.steps - trainer.steps
    again = resume_command(["train", *sys.argv[1:]], str(options.out), RanOn(emulated_cluster=emulated_cluster()))
    try:
        if left > 0:
            trainer.fit(Synthetic(), left, [printer, checkpoints])
            if trainer.steps % options.checkpoint_every:
                checkpoints.save(trainer)
    except KeyboardInterrupt:
        console.print(f"Interrupted after step {trainer.steps}; {_saved(trainer, checkpoints)}", soft_wrap=True)
        console.print(f"Go on with: {again}", soft_wrap=True)
        return INTERRUPTED
    except (TrainingError, WriteError) as error:
        say(f"train: {error}", err=True)
        kept = checkpoints.latest()
        if kept is None or str(kept) not in str(error):
            console.print("No checkpoint was saved." if kept is None else f"The newest checkpoint is {kept}.")
        console.print(f"Go on with: {again}", soft_wrap=True)
        return FAILED
    console.print(f"Trained {trainer.steps} steps; the model is in {checkpoints.latest()}.", soft_wrap=True)
    return 0


def _saved(trainer: Trainer, checkpoints: Checkpoints) -> str:
    """Save the model; the outcome in words that end a sentence. The signal may have ended workers as well."""
    try:
        with ctrl_c_waits():
            return f"saved {checkpoints.save(trainer)}."
    except (TrainingError, WriteError) as error:
        return f"the model could not be saved: {error}"


@final
class _Printer:
    """A callback that prints a line every `every` steps."""

    reads_model = False
    sets_model = False

    def __init__(self, console: Console, directory: TrainingDirectory, every: int) -> None:
        self.console = console
        self._directory = directory
        self._every = every
        self._trainer: Trainer | None = None
        self._shown = 0

    def set_trainer(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any]) -> None:  # noqa: ARG002 - Keras' form
        assert self._trainer is not None
        step = self._trainer.steps
        if step % self._every and step > 1:
            return
        part = self._trainer.history.since(self._shown)
        self._shown = len(self._trainer.history)
        seconds = sum(part.step_seconds)
        line = {
            "step": step,
            "loss": logs["loss"],
            "examples_per_second": sum(part.examples) / seconds,
            "step_seconds": seconds / len(part),
        }
        self._directory.add_line(line)
        self.console.print(
            f"step {step:7d}   loss {line['loss']:.4f}   {line['examples_per_second']:9.1f} examples/s   "
            f"{line['step_seconds'] * 1e3:8.1f} ms a step"
        )
