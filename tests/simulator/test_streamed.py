"""Records that come in blocks teach what they teach in memory, in one process or in several."""

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
from autosync.simulator.crew import ALONE, Crew, TorchCrew
from autosync.simulator.examples import examples_of, family_key
from autosync.simulator.inputs import Detail, Inputs
from autosync.simulator.settings import NOTHING_WITHHELD
from autosync.simulator.stored import StoredInputs
from autosync.simulator.streamed import Block, Shard, Taught, assembled, encoded, short
from autosync.simulator.view import View
from autosync.spec import RuntimeRecord
from autosync.stats.occasions import Timed
from tests import cases
from tests.simulator.cases import CLUSTER, MODEL, QUICK, records
from tests.space.samples import sampled

CLUSTERS = (CLUSTER, cases.rack_cluster())
VIEW = View(Replay(), Detail.POOLED, NOTHING_WITHHELD)


def told(count: int) -> tuple[list[RuntimeRecord], list[RuntimeRecord]]:
    """Records of two cells to teach and to judge by, in order, over several runs that drifted apart."""
    found = []
    for number, cluster in enumerate(CLUSTERS):
        for at, each in enumerate(records(count, seed=number + 1, cluster=cluster)):
            run, began = f"run {at * 4 // count}", 1e5 * (at * 4 // count) + at
            slow = tuple(second * (1 + 0.05 * (at * 4 // count)) for second in each.step_seconds)
            found.append(replace(each, run=run, started_at=float(began), total_seconds=1.0, step_seconds=slow))
    return [each for at, each in enumerate(found) if at % 4], found[::4]


def blocks(taught: Sequence[RuntimeRecord], judges: Sequence[RuntimeRecord], size: int, view: View) -> list[Any]:
    """What `encoded` makes of all records, shuffled, some of them twice."""
    both = [(each, False) for each in taught] + [(each, True) for each in judges]
    shuffled = [both[place] for place in np.random.default_rng(0).permutation(len(both))] + both[:3]
    made = []
    for begin in range(0, len(shuffled), size):
        chosen = shuffled[begin : begin + size]
        numbers = [CLUSTERS.index(each.cluster) for each, _ in chosen]
        identities = [short(f"{each.strategy.digest} {each.cluster.digest} {each.started_at}") for each, _ in chosen]
        block = Block([each for each, _ in chosen], identities, numbers, numbers, [judge for _, judge in chosen])
        made.append(encoded(block, [(MODEL, cluster) for cluster in CLUSTERS], view))
    return made


@final
@dataclass(frozen=True, eq=False)
class Told:
    """A stream of `told` records: of the blocks, processes of a crew take turns."""

    count: int
    folder: Path
    crew: Crew = ALONE

    @property
    def for_base(self) -> list[RuntimeRecord]:
        taught, _ = told(self.count)
        most = min(len(taught), MOST_RECORDS)
        return [taught[at * len(taught) // most] for at in range(most)]

    def taught(self, view: View) -> Taught:
        own = blocks(*told(self.count), 7, view)[self.crew.rank :: self.crew.size]
        keys = [family_key(MODEL, cluster) for cluster in CLUSTERS]
        return assembled(Shard.written(own, self.folder / f"inputs-{self.crew.rank}"), keys, self.crew)


def fitted_beside(rank: int, size: int, folder: Path) -> tuple[str, Any]:
    """What one process of a crew of this size has learned: the identity of its records, and its predictions."""
    torch.distributed.init_process_group("gloo", f"file://{folder / 'meet'}", rank=rank, world_size=size)
    made = LearnedSimulator(Replay(), settings=QUICK)
    made.fit_stream(Told(20, folder, TorchCrew()))
    torch.distributed.destroy_process_group()
    return made.data_digest, made.predict_with_spread(MODEL, CLUSTER, sampled(MODEL, CLUSTER, 20, seed=9))


def test_blocks_in_any_order_make_the_examples_of_all_records(tmp_path: Path) -> None:
    taught, judges = told(20)
    found = Told(20, tmp_path).taught(VIEW)
    wanted = examples_of(Timed.of([*taught, *judges]), VIEW)
    assert (found.count, len(found.both)) == (len(taught), len(wanted))
    assert sum(found.families.values()) == len(taught)
    for name in ("base", "measured", "errors", "occasions", "strategies", "weights"):
        torch.testing.assert_close(getattr(found.both.targets, name), getattr(wanted.targets, name), rtol=0, atol=1e-12)
    assert len(np.unique(found.both.targets.occasions)) == 8
    torch.testing.assert_close(found.both.inputs.gathered().pooled, wanted.inputs.gathered().pooled, rtol=0, atol=1e-12)


def test_stored_inputs_are_what_they_were_in_memory(tmp_path: Path) -> None:
    rows = torch.from_numpy(np.random.default_rng(0).normal(size=(10_000, 50)))
    (tmp_path / "inputs").write_bytes(rows.numpy().tobytes())
    order = np.random.default_rng(1).permutation(10_000)
    stored, kept = StoredInputs(tmp_path / "inputs", 50, order, ALONE), Inputs(rows[order])
    normalization = stored.normalization()
    torch.testing.assert_close(normalization.pooled, kept.normalization().pooled, rtol=1e-12, atol=1e-12)
    some = [7, 3, 9_999, 3]
    read, at = stored.normalized(normalization).to(torch.float32).take([0, *some]).own([1, 2, 3, 4])
    assert at.tolist() == [0, 1, 2, 3]
    torch.testing.assert_close(read.pooled, kept.take(some).normalized(normalization).to(torch.float32).pooled)
    assert sum(len(places) for _, places in stored.pieces()) == 10_000


def test_a_stream_teaches_what_the_records_teach_in_memory(tmp_path: Path) -> None:
    made, streamed = (LearnedSimulator(Replay(), settings=QUICK) for _ in range(2))
    taught, judges = told(20)
    made.fit(taught, validation=judges)
    streamed.fit_stream(Told(20, tmp_path))
    assert streamed.record_count == made.record_count == len(taught)
    others = sampled(MODEL, CLUSTER, 20, seed=9)
    wanted = made.predict_with_spread(MODEL, CLUSTER, others)
    np.testing.assert_allclose(streamed.predict_with_spread(MODEL, CLUSTER, others), wanted, rtol=0, atol=1e-9)
    assert (np.abs(wanted[0] - made.base.predict(MODEL, CLUSTER, others)) > 1e-3).any(), "it has learned something"


def test_three_that_fit_together_learn_what_one_learns(tmp_path: Path) -> None:
    alone = LearnedSimulator(Replay(), settings=QUICK)
    alone.fit_stream(Told(20, tmp_path))
    with ProcessPoolExecutor(3, get_context("spawn")) as pool:
        found = [pool.submit(fitted_beside, rank, 3, tmp_path) for rank in range(3)]
        learned = [each.result(300) for each in found]
    wanted = alone.predict_with_spread(MODEL, CLUSTER, sampled(MODEL, CLUSTER, 20, seed=9))
    for digest, predicted in learned:
        np.testing.assert_allclose(predicted, wanted, rtol=0, atol=1e-5)
        assert digest == alone.data_digest


def test_a_network_that_reads_more_than_is_kept_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"^Records are streamed into a new network 'linear', not into 'rnn'\.$"):
        LearnedSimulator(Replay(), "rnn").fit_stream(Told(8, tmp_path))
