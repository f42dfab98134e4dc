"""Processes of Ray Train that fit one simulator together, on one machine or on many.

Each streams its share of the blocks of records, encoded by Ray's tasks, and keeps its inputs; what is to be learned,
all know. A batch is as with one process: each says what it predicts of the records that it has, and gradients are added
up. So what is learned is the same up to rounding, however many there are, and who has which records follows from the
files alone. Weights come out equal within `TOLERANCE`.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

from autosync.dataset import Share, arrays_in, blocks_of, quietly
from autosync.simulator.crew import TorchCrew
from autosync.simulator.learned import LearnedSimulator
from autosync.simulator.streamed import Shard, Taught, assembled
from autosync.simulator.view import View
from autosync.spec import RuntimeRecord
from autosync.studies.evaluation.cells import EvaluationError
from autosync.studies.evaluation.streams import RecordStream

TOLERANCE = 1e-5
"""The most that predictions, in log seconds, differ by how many workers there were: they train in float32."""


def fitted_by_workers(stream: RecordStream, network: str, seed: int, workers: int) -> LearnedSimulator:
    """The simulator that so many processes fit together.

    Raises `SpecError` as `LearnedSimulator.fit_stream` does, and `EvaluationError` where Ray has no room for them or
    one of them failed.
    """
    import ray
    from ray.train import DataConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    slots = int(ray.cluster_resources().get("CPU", 0))
    if workers >= slots:
        raise EvaluationError(
            f"--workers {workers} need a processor each, and one beside, but Ray has {slots} in all; ask for fewer."
        )
    whole = LearnedSimulator(network=network, seed=seed)
    whole.check_streams()
    whole.base.fit(stream.for_base)
    encoder, folder = stream.encoder(whole.view), stream.survey.folder
    kept: Any = ray.remote(num_cpus=0)(_Kept).remote()
    given = _Given(network, seed, stream.for_base, stream.family_keys, kept)
    with TemporaryDirectory() as storage, quietly(in_order=True):
        trainer = TorchTrainer(
            lambda: _fit(given),
            torch_config=TorchConfig(backend="gloo"),
            scaling_config=ScalingConfig(num_workers=workers, use_gpu=False, resources_per_worker={"CPU": 1}),
            run_config=RunConfig(name="fit", storage_path=storage),
            datasets={_share(rank): blocks_of(folder, encoder, Share(rank, workers)) for rank in range(workers)},
            dataset_config=DataConfig(datasets_to_split=[]),
        )
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # where its own files are, which are about to go
                trainer.fit()
        except Exception as error:  # what it is depends on the version of Ray Train
            raise EvaluationError(f"A worker failed while it fitted: {_last_line(error)}") from None
        checkpoint = Path(storage) / "checkpoint"
        checkpoint.mkdir()
        for name, content in ray.get(kept.files.remote()).items():
            (checkpoint / name).write_bytes(content)
        return LearnedSimulator.load(checkpoint)


@final
class _Kept:
    """Keeps what the first worker made, wherever that is, for who asked for it: machines need share no folder."""

    def __init__(self) -> None:
        self._files: Mapping[str, bytes] = {}

    def keep(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def files(self) -> Mapping[str, bytes]:
        return self._files


@final
@dataclass(frozen=True, eq=False)
class _Given:
    """What every worker is given; `kept` is where the first hands its checkpoint in."""

    network: str
    seed: int
    for_base: Sequence[RuntimeRecord]
    keys: Sequence[str]
    kept: Any


@final
@dataclass(frozen=True, eq=False)
class _OwnShare:
    """A worker's share of the records, as a stream."""

    given: _Given
    folder: Path

    @property
    def for_base(self) -> Sequence[RuntimeRecord]:
        return self.given.for_base

    def taught(self, view: View) -> Taught:
        import ray.train

        del view  # what comes here is encoded already
        blocks = arrays_in(ray.train.get_dataset_shard(_share(TorchCrew().rank)))
        return assembled(Shard.written(blocks, self.folder / "inputs"), self.given.keys, TorchCrew())


def _fit(given: _Given) -> None:
    """What each worker does."""
    import ray

    learned = LearnedSimulator(network=given.network, seed=given.seed)
    with TemporaryDirectory() as folder:
        learned.fit_stream(_OwnShare(given, Path(folder)))
        if TorchCrew().rank == 0:
            checkpoint = Path(folder) / "checkpoint"
            learned.save(checkpoint)
            ray.get(given.kept.keep.remote({file.name: file.read_bytes() for file in checkpoint.iterdir()}))


def _share(rank: int) -> str:
    return f"share-{rank}"


def _last_line(error: BaseException) -> str:
    """The last line of what Ray says, which names the error itself."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[-1].rstrip(".") + "."
