"""Runs `autosync train`: trains a model of the zoo or of the user on the batches of the model itself."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from autosync.engine.core.contract import Engine
from autosync.engine.core.registry import DEFAULT, check_engine_installed, engine_named
from autosync.errors import TrainingError, WriteError
from autosync.files import check_inside, make_folder, open_to_append
from autosync.runs.claim import claim_folder
from autosync.runs.run_folder import RunFolder
from autosync.spec import ClusterSpec, Strategy
from autosync.terminal import say
from autosync.train.checkpoint_folder import Checkpoints
from autosync.train.distribution import distribute_task
from autosync.train.given_strategy import read_strategy
from autosync.train.place import PlaceOptions
from autosync.train.reporter import Reporter
from autosync.train.trainer import Trainer
from autosync.tune.ran_on import name_of_emulated_cluster
from autosync.words.commands import RanOn, resume_command
from autosync.words.quantities import model_in_words
from autosync.words.strategy import statistics_in_words
from autosync.zoo import build_task, check_model_name, framework_by_name
from trials.capture_in_subprocess import capture_in_subprocess
from trials.cluster.file import read_cluster_file
from trials.opening import model_line, model_on
from trials.signals import ctrl_c_waits
from trials.workers.memory import memory_in_words

if TYPE_CHECKING:
    from autosync.train.module_trainer import ModuleTrainer

    AnyTrainer = Trainer | ModuleTrainer


@final
@dataclass(frozen=True)
class TrainingDirectory(RunFolder):
    """The folder of a training: `run.json` (model, strategy), `loss.jsonl` (every printed line) and `checkpoints`."""

    refusal = TrainingError

    @classmethod
    def open(
        cls, path: Path, model: str, strategy: Strategy, resume: bool, framework: str = DEFAULT
    ) -> TrainingDirectory:
        """Return a new directory, or with `resume` that of a run with the same model, strategy and framework.

        Raises `TrainingError`.
        """
        run = cls(path)
        run.check_begun(resume)
        if resume:
            run.check_same({"framework": DEFAULT, **run.read("run.json")}, _identity(model, strategy, framework))
        return run

    def begin(self, model: str, strategy: Strategy, framework: str = DEFAULT) -> None:
        """Create the directory and write `run.json`. Raises `TrainingError`."""
        try:
            make_folder(self.path)
            self.write("run.json", _identity(model, strategy, framework))
        except WriteError as error:
            raise TrainingError(f"--out {error}") from None

    def checkpoints(self, every: int, suffix: str = ".keras") -> Checkpoints:
        """Return the folder of checkpoints. Raises `WriteError` if it is a link out of this directory."""
        return Checkpoints(check_inside(self.path / "checkpoints"), every, suffix=suffix)

    def add_line(self, line: dict[str, Any]) -> None:
        """Append to `loss.jsonl`. Raises `WriteError`."""
        with open_to_append(self.path / "loss.jsonl") as file:
            file.write((json.dumps(line) + "\n").encode())


def _identity(model: str, strategy: Strategy, framework: str) -> dict[str, Any]:
    """The fields that a resumed run must share with the original run; runs of earlier versions name no framework."""
    return {"model": model, "strategy": strategy.digest, "framework": framework}


SUFFIXES = {"tensorflow": ".keras", "pytorch": ".safetensors"}
"""The endings of checkpoints' names, by framework."""


FAILED, INTERRUPTED = 1, 130
"""Exit statuses: training ended early; Ctrl-C, as in shells."""


@dataclass(frozen=True)
class TrainOptions:
    """The options of `autosync train`."""

    model: str
    """A zoo model, or the user's own as package.module:function."""
    strategy: Path
    """The strategy file."""
    steps: int
    """Steps of the whole run, including those before it was resumed."""
    out: Path
    """The folder of the run."""
    checkpoint_every: int
    """Steps from one checkpoint to the next."""
    log_every: int
    """Steps from one printed line to the next."""
    resume: bool
    """True to resume the run in `out`."""
    capture_seconds: float
    """The time limit for building and capturing the user's own model."""
    where: PlaceOptions
    """The cluster to train on."""
    framework: str | None = DEFAULT
    """The framework of the model; None leaves it to the model."""


def train(options: TrainOptions, out_is_default: bool, reporter: Reporter) -> int:
    """Train as `options` say and report the progress; return the exit status. Raises `AutosyncError` if training cannot
    begin.

    With `out_is_default` the folder name is a timestamp, so another name may be claimed.
    """
    with claim_folder(options.out, is_default=out_is_default, resume=options.resume) as out:
        return _train(replace(options, out=out), reporter)


def _train(options: TrainOptions, reporter: Reporter) -> int:
    """Train in a folder that is already claimed."""
    check_model_name(options.model, options.framework)
    strategy = read_strategy(options.strategy)
    if isinstance(options.where.cluster, Path):
        read_cluster_file(options.where.cluster)  # report errors of the file before the framework is loaded
    framework, captured = _capture_own(options)
    options = replace(options, where=replace(options.where, framework=framework))
    directory = TrainingDirectory.open(options.out, options.model, strategy, options.resume, framework)
    checkpoints = directory.checkpoints(options.checkpoint_every, SUFFIXES[framework])
    engine = engine_named(framework)
    with ExitStack() as stack:
        with engine.quiet_log():
            trainer = _distribute(options, strategy, engine, captured)
            stack.callback(trainer.close)
        directory.begin(options.model, strategy, framework)
        for line in (*trainer.notes, model_line(options.model, trainer.cluster), *_in_words(trainer, engine)):
            reporter.say(line)
        _restore_latest(trainer, checkpoints, options, reporter)
        reporter.event("training", _beginning(options, trainer))
        return _steps(trainer, checkpoints, options, _Printer(reporter, directory, options.log_every))


def _beginning(options: TrainOptions, trainer: AnyTrainer) -> dict[str, Any]:
    """The details of the event that training begins."""
    return {
        "run": str(options.out),
        "model": options.model,
        "framework": options.where.framework,
        "strategy_digest": trainer.strategy.digest,
        "replicas": list(trainer.strategy.replicas),
        "earlier_steps": trainer.steps,
        "steps": options.steps,
    }


def _capture_own(options: TrainOptions) -> tuple[str, bytes]:
    """The framework of the model, and the captured model if it is the user's own.

    A subprocess captures the user's model, because this process could not stop the user's function.
    """
    stated = framework_by_name(options.model, options.framework)
    check_engine_installed(stated)
    if ":" not in options.model:
        assert stated is not None, "only the framework of a user's own model is open"
        return stated, b""
    if stated is None:
        return capture_in_subprocess(options.model, options.capture_seconds, framework=None)
    engine = engine_named(stated)
    with engine.quiet_log():
        return capture_in_subprocess(options.model, options.capture_seconds, engine.load, stated)


def _distribute(options: TrainOptions, strategy: Strategy, engine: Engine, captured: bytes) -> AnyTrainer:
    """Return a trainer of the model, ready for its first step; `captured` are the bytes of the user's own model."""
    engine.load()

    def task_on(cluster: ClusterSpec) -> Any:
        """Build the task. This process only captures the model, because GPUs belong to the workers."""
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return build_task(model_on(options.model, cluster), framework=engine.name)

    if engine.name == DEFAULT:  # a Keras model also lives in this process, which writes its files
        return distribute_task(task_on, strategy, options.where)
    from autosync.train.module_trainer import distribute_module  # loads PyTorch

    def capture_on(cluster: ClusterSpec) -> Any:
        return engine.load_captured(captured) if captured else engine.capture(task_on(cluster))

    return distribute_module(capture_on, strategy, options.where)


def _in_words(trainer: AnyTrainer, engine: Engine) -> tuple[str, ...]:
    assert trainer.spec is not None, "prepared by distribute_task"
    replicas, warning = trainer.strategy.replicas, statistics_in_words(trainer.strategy)
    of_replicas = f"{len(replicas)} replicas: {', '.join(replicas)}."
    return (
        model_in_words(trainer.spec),
        memory_in_words(trainer.spec, engine),
        of_replicas,
        *([warning] if warning else []),
    )


def _restore_latest(trainer: AnyTrainer, checkpoints: Checkpoints, options: TrainOptions, reporter: Reporter) -> None:
    latest = checkpoints.latest() if options.resume else None
    if latest is not None:
        trainer.restore(latest)
        reporter.say(f"Resuming after step {trainer.steps} from {latest}.")
    elif options.resume:
        reporter.say("The run has no checkpoint yet, so it begins at step 0.")


def _steps(trainer: AnyTrainer, checkpoints: Checkpoints, options: TrainOptions, printer: _Printer) -> int:
    reporter, remaining = printer.reporter, options.steps - trainer.steps
    again = resume_command(
        ["train", *sys.argv[1:]], str(options.out), RanOn(emulated_cluster=name_of_emulated_cluster())
    )
    try:
        if remaining > 0:
            trainer.train_own(remaining, [printer, checkpoints])
            if trainer.steps % options.checkpoint_every:
                checkpoints.save(trainer)
    except KeyboardInterrupt:
        reporter.say_outcome(f"Interrupted after step {trainer.steps}; {_save_interrupted(trainer, checkpoints)}")
        reporter.say_outcome(f"Go on with: {again}")
        reporter.event("result", _outcome("interrupted", trainer, checkpoints))
        return INTERRUPTED
    except (TrainingError, WriteError) as error:
        say(f"train: {error}", err=True)
        kept = checkpoints.latest()
        if kept is None or str(kept) not in str(error):
            reporter.say_outcome("No checkpoint was saved." if kept is None else f"The newest checkpoint is {kept}.")
        reporter.say_outcome(f"Go on with: {again}")
        reporter.event("result", _outcome("failed", trainer, checkpoints, str(error)))
        return FAILED
    reporter.say_outcome(f"Trained {trainer.steps} steps; the model is in {checkpoints.latest()}.")
    reporter.event("result", _outcome("trained", trainer, checkpoints))
    return 0


def _outcome(outcome: str, trainer: AnyTrainer, checkpoints: Checkpoints, reason: str = "") -> dict[str, Any]:
    """The details of the event that training has ended."""
    latest = checkpoints.latest()
    return {
        "outcome": outcome,
        "steps": trainer.steps,
        "checkpoint": None if latest is None else str(latest),
        "reason": reason,
    }


def _save_interrupted(trainer: AnyTrainer, checkpoints: Checkpoints) -> str:
    """Save the model; return the outcome as the end of a sentence. The signal may have ended workers as well."""
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

    def __init__(self, reporter: Reporter, directory: TrainingDirectory, every: int) -> None:
        self.reporter = reporter
        self._directory = directory
        self.acts_every = every
        self._trainer: AnyTrainer | None = None
        self._shown = 0

    def set_trainer(self, trainer: AnyTrainer) -> None:
        self._trainer = trainer

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any]) -> None:  # noqa: ARG002 - Keras' signature
        assert self._trainer is not None
        step = self._trainer.steps
        if step % self.acts_every and step > 1:
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
        self.reporter.event("step", line)
        self.reporter.say(
            f"step {step:7d}   loss {line['loss']:.4f}   {line['examples_per_second']:9.1f} examples/s   "
            f"{line['step_seconds'] * 1e3:8.1f} ms a step"
        )
