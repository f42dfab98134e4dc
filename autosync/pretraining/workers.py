"""Processes of Ray Train that fit one simulator together, on one machine or several.

Each process streams its share of the blocks of records, encoded by Ray's tasks, and keeps their inputs; all processes
know all targets. A batch is the same as with one process: each predicts its own records, and gradients are all-reduced.
So the result is the same up to rounding for any number of processes, and the files alone determine which process has
which records. Predictions agree within `TOLERANCE`.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

from autosync.dataset import BlockShare, arrays_in, blocks_of, quietly
from autosync.pretraining.cells import EvaluationError
from autosync.pretraining.new_simulator import new_simulator
from autosync.pretraining.streams import RecordStream
from autosync.simulator.fit_workers import TorchFitWorkers
from autosync.simulator.learned import LearnedSimulator
from autosync.simulator.streamed import EncodedShard, TrainingRecords, assemble
from autosync.simulator.view import View
from autosync.spec import RuntimeRecord

TOLERANCE = 1e-5
"""The largest difference of predictions, in log seconds, between numbers of workers, because they train in float32."""


def fit_by_workers(stream: RecordStream, network: str, seed: int, workers: int) -> LearnedSimulator:
    """Return the simulator that `workers` processes fit together.

    Raises the `SpecError` of `LearnedSimulator.fit_stream`, and `EvaluationError` if Ray has too few CPUs or a worker
    fails.
    """
    import ray
    from ray.train import DataConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    slots = int(ray.cluster_resources().get("CPU", 0))
    if workers >= slots:
        raise EvaluationError(
            f"--workers {workers} needs a CPU for each worker and one more, but Ray has {slots} in total; choose fewer."
        )
    whole = new_simulator(stream.for_base, network, seed)
    whole.check_streams()
    whole.base.fit(stream.for_base)
    encoder, folder = stream.encoder(whole.view), stream.survey.folder
    holder: Any = ray.remote(num_cpus=0)(_CheckpointHolder).remote()
    task = _WorkerTask(network, seed, stream.for_base, stream.family_keys, holder)
    with TemporaryDirectory() as storage, quietly(in_order=True):
        trainer = TorchTrainer(
            lambda: _fit(task),
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(num_workers=workers, use_gpu=False, resources_per_worker={"CPU": 1}),
            run_config=RunConfig(name="fit", storage_path=storage),
            datasets={_share(rank): blocks_of(folder, encoder, BlockShare(rank, workers)) for rank in range(workers)},
            dataset_config=DataConfig(datasets_to_split=[]),
        )
        try:
            with contextlib.redirect_stdout(
                io.StringIO()
            ):  # Ray Train prints the location of its files, which are deleted below
                trainer.fit()
        except Exception as error:  # the type depends on the version of Ray Train
            raise EvaluationError(f"A worker failed during the fit: {_last_line(error)}") from None
        checkpoint = Path(storage) / "checkpoint"
        checkpoint.mkdir()
        for name, content in ray.get(holder.files.remote()).items():
            (checkpoint / name).write_bytes(content)
        return LearnedSimulator.load(checkpoint)


@final
class _CheckpointHolder:
    """Holds the first worker's checkpoint for the calling process, because machines need not share a folder."""

    def __init__(self) -> None:
        self._files: Mapping[str, bytes] = {}

    def keep(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def files(self) -> Mapping[str, bytes]:
        return self._files


@final
@dataclass(frozen=True, eq=False)
class _WorkerTask:
    """The inputs of every worker. The first worker hands its checkpoint to `holder`."""

    network: str
    seed: int
    for_base: Sequence[RuntimeRecord]
    keys: Sequence[str]
    holder: Any


@final
@dataclass(frozen=True, eq=False)
class _ShareStream:
    """A worker's share of the records, as a stream."""

    task: _WorkerTask
    folder: Path

    @property
    def for_base(self) -> Sequence[RuntimeRecord]:
        return self.task.for_base

    def training_records(self, view: View) -> TrainingRecords:
        import ray.train

        del view  # the blocks are already encoded
        blocks = arrays_in(ray.train.get_dataset_shard(_share(TorchFitWorkers().rank)))
        return assemble(EncodedShard.write(blocks, self.folder / "inputs"), self.task.keys, TorchFitWorkers())


def _fit(task: _WorkerTask) -> None:
    """Run the fit in one worker."""
    import ray

    learned = new_simulator(task.for_base, task.network, task.seed)
    with TemporaryDirectory() as folder:
        learned.fit_stream(_ShareStream(task, Path(folder)))
        if TorchFitWorkers().rank == 0:
            checkpoint = Path(folder) / "checkpoint"
            learned.save(checkpoint)
            ray.get(task.holder.keep.remote({file.name: file.read_bytes() for file in checkpoint.iterdir()}))


def _share(rank: int) -> str:
    return f"share-{rank}"


def _last_line(error: BaseException) -> str:
    """Return the last line of Ray's message, which names the error itself."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1].rstrip(".") + "."
