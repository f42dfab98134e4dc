"""Records in blocks have the same effect as records in memory, in one process or in several."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, final

import numpy as np
import pytest
import torch

from autosync.cost import Replay
from autosync.cost.replay.simulator import MOST_RECORDS
from autosync.errors import SpecError
from autosync.simulator import LearnedSimulator
from autosync.simulator.examples import examples_of, family_key
from autosync.simulator.fit_workers import SINGLE_WORKER, FitWorkers, TorchFitWorkers
from autosync.simulator.inputs import Detail, Inputs
from autosync.simulator.settings import NOTHING_WITHHELD
from autosync.simulator.stored import StoredInputs
from autosync.simulator.streamed import EncodedShard, RecordBlock, TrainingRecords, assemble, encode, short
from autosync.simulator.view import View
from autosync.spec import RuntimeRecord
from autosync.stats.drift import Timed
from tests import cases
from tests.simulator.cases import CLUSTER, MODEL, QUICK, records
from tests.space.samples import sampled

CLUSTERS = (CLUSTER, cases.rack_cluster())
VIEW = View(Replay(), Detail.POOLED, NOTHING_WITHHELD)


def told(count: int) -> tuple[list[RuntimeRecord], list[RuntimeRecord]]:
    """Return training and validation records of two cells, in order, from several runs that drifted apart."""
    drifting = []
    for number, cluster in enumerate(CLUSTERS):
        for at, record in enumerate(records(count, seed=number + 1, cluster=cluster)):
            run, began = f"run {at * 4 // count}", 1e5 * (at * 4 // count) + at
            slow = tuple(second * (1 + 0.05 * (at * 4 // count)) for second in record.step_seconds)
            drifting.append(replace(record, run=run, started_at=float(began), total_seconds=1.0, step_seconds=slow))
    return [record for at, record in enumerate(drifting) if at % 4], drifting[::4]


def blocks(
    training: Sequence[RuntimeRecord], validation_records: Sequence[RuntimeRecord], size: int, view: View
) -> list[Any]:
    """Return the `encode`d blocks of all records, shuffled, some records twice."""
    flagged = [(record, False) for record in training] + [(record, True) for record in validation_records]
    shuffled = [flagged[place] for place in np.random.default_rng(0).permutation(len(flagged))] + flagged[:3]
    made = []
    for begin in range(0, len(shuffled), size):
        batch = shuffled[begin : begin + size]
        numbers = [CLUSTERS.index(record.cluster) for record, _ in batch]
        identities = [
            short(f"{record.strategy.digest} {record.cluster.digest} {record.started_at}") for record, _ in batch
        ]
        block = RecordBlock(
            [record for record, _ in batch], identities, numbers, numbers, [judge for _, judge in batch]
        )
        made.append(encode(block, [(MODEL, cluster) for cluster in CLUSTERS], view))
    return made


@final
@dataclass(frozen=True, eq=False)
class Told:
    """A stream of `told` records, whose blocks are dealt out to the workers round-robin."""

    count: int
    folder: Path
    workers: FitWorkers = SINGLE_WORKER

    @property
    def for_base(self) -> list[RuntimeRecord]:
        training, _ = told(self.count)
        most = min(len(training), MOST_RECORDS)
        return [training[at * len(training) // most] for at in range(most)]

    def training_records(self, view: View) -> TrainingRecords:
        local_blocks = blocks(*told(self.count), 7, view)[self.workers.rank :: self.workers.size]
        keys = [family_key(MODEL, cluster) for cluster in CLUSTERS]
        return assemble(
            EncodedShard.write(local_blocks, self.folder / f"inputs-{self.workers.rank}"), keys, self.workers
        )


def fit_as_worker(rank: int, size: int, folder: Path) -> tuple[str, Any]:
    """Fit in one of `size` workers; return the digest of its records and its predictions."""
    torch.distributed.init_process_group("gloo", f"file://{folder / 'meet'}", rank=rank, world_size=size)
    made = LearnedSimulator(Replay(), settings=QUICK)
    made.fit_stream(Told(20, folder, TorchFitWorkers()))
    torch.distributed.destroy_process_group()
    return made.data_digest, made.predict_with_spread(MODEL, CLUSTER, sampled(MODEL, CLUSTER, 20, seed=9))


def test_blocks_in_any_order_make_the_examples_of_all_records(tmp_path: Path) -> None:
    training, validation_records = told(20)
    result = Told(20, tmp_path).training_records(VIEW)
    wanted = examples_of(Timed.of([*training, *validation_records]), VIEW)
    assert (result.count, len(result.examples)) == (len(training), len(wanted))
    assert sum(result.families.values()) == len(training)
    for name in ("base", "measured", "errors", "occasions", "strategies", "weights"):
        torch.testing.assert_close(
            getattr(result.examples.targets, name), getattr(wanted.targets, name), rtol=0, atol=1e-12
        )
    assert len(np.unique(result.examples.targets.occasions)) == 8
    torch.testing.assert_close(
        result.examples.inputs.in_memory().pooled, wanted.inputs.in_memory().pooled, rtol=0, atol=1e-12
    )


def test_stored_inputs_are_what_they_were_in_memory(tmp_path: Path) -> None:
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(10_000, 50)))
    (tmp_path / "inputs").write_bytes(rows.numpy().tobytes())
    order = np.random.default_rng(1).permutation(10_000)
    stored, kept = StoredInputs(tmp_path / "inputs", 50, order, SINGLE_WORKER), Inputs(rows[order])
    normalization = stored.normalization()
    torch.testing.assert_close(normalization.pooled, kept.normalization().pooled, rtol=1e-12, atol=1e-12)
    some = [7, 3, 9_999, 3]
    read, at = stored.normalize(normalization).to(torch.float32).take([0, *some]).local([1, 2, 3, 4])
    assert at.tolist() == [0, 1, 2, 3]
    torch.testing.assert_close(read.pooled, kept.take(some).normalize(normalization).to(torch.float32).pooled)
    assert sum(len(places) for _, places in stored.pieces()) == 10_000


def test_a_stream_teaches_what_the_records_teach_in_memory(tmp_path: Path) -> None:
    made, streamed = (LearnedSimulator(Replay(), settings=QUICK) for _ in range(2))
    training, validation_records = told(20)
    made.fit(training, validation=validation_records)
    streamed.fit_stream(Told(20, tmp_path))
    assert streamed.record_count == made.record_count == len(training)
    unseen = sampled(MODEL, CLUSTER, 20, seed=9)
    wanted = made.predict_with_spread(MODEL, CLUSTER, unseen)
    np.testing.assert_allclose(streamed.predict_with_spread(MODEL, CLUSTER, unseen), wanted, rtol=0, atol=1e-9)
    assert (np.abs(wanted[0] - made.base.predict(MODEL, CLUSTER, unseen)) > 1e-3).any(), "it has learned something"


def test_three_that_fit_together_learn_what_one_learns(tmp_path: Path) -> None:
    alone = LearnedSimulator(Replay(), settings=QUICK)
    alone.fit_stream(Told(20, tmp_path))
    with ProcessPoolExecutor(3, get_context("spawn")) as pool:
        futures = [pool.submit(fit_as_worker, rank, 3, tmp_path) for rank in range(3)]
        learned = [future.result(300) for future in futures]
    wanted = alone.predict_with_spread(MODEL, CLUSTER, sampled(MODEL, CLUSTER, 20, seed=9))
    for digest, predicted in learned:
        np.testing.assert_allclose(predicted, wanted, rtol=0, atol=1e-5)
        assert digest == alone.data_digest


def test_a_network_that_reads_more_than_is_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SpecError, match=r"^Records can only be streamed into a new network 'linear', not into 'rnn'\.$"
    ):
        LearnedSimulator(Replay(), "rnn").fit_stream(Told(8, tmp_path))
