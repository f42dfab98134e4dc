"""Training under a discipline on paced nodes: gradients are real and delayed, and a run can be resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import autosync
from autosync.errors import SpecError
from autosync.spec import CutOff, Discipline, Pace, Rhythm, Spread
from autosync.train import Trainer
from tests.cases import local_cluster
from tests.train.models import LOSS, all_reduce, batches, classifier

PACED = replace(
    local_cluster(3),
    nodes=tuple(replace(node, pace=Pace(0.0, 0.005, "recorded", Spread(0.5))) for node in local_cluster(3).nodes),
)
DISCIPLINES = {
    "plain": Discipline(),
    "first two, others stop": Discipline(waits=CutOff(2, "stop")),
    "first of all": Discipline(waits=CutOff(3)),
    "meeting seldom": Discipline(Rhythm(3)),
    "meeting when gradients change": Discipline(Rhythm(threshold=0.5)),
}


def trainer(discipline: Discipline, cluster: Any = PACED) -> Trainer:
    model = classifier()
    replicas = tuple(str(device) for device in cluster.replica_devices)
    strategy = replace(all_reduce(model), replicas=replicas, discipline=discipline)
    return autosync.distribute(model, LOSS, keras.optimizers.Adam(0.01), strategy, cluster, backend="local")


def weights(made: Trainer) -> list[bytes]:
    made.update_model()
    return [variable.numpy().tobytes() for variable in made.model.variables]


@pytest.mark.quick("first two*", "meeting seldom")
@pytest.mark.parametrize("name", DISCIPLINES)
def test_a_resumed_run_on_paced_nodes_is_the_uninterrupted_one_to_the_bit(name: str, tmp_path: Path) -> None:
    data = list(batches((12, 12, 7, 12, 12, 2, 12, 12)))
    with trainer(DISCIPLINES[name]) as whole, trainer(DISCIPLINES[name]) as first:
        losses = [whole.step(batch) for batch in data]
        assert [first.step(batch) for batch in data[:4]] == losses[:4]
        first.save(tmp_path / "half.keras")
        with trainer(DISCIPLINES[name]) as second:
            second.restore(tmp_path / "half.keras")
            assert [second.step(batch) for batch in data[4:]] == losses[4:]
            assert weights(second) == weights(whole)
    assert np.isfinite(losses).all()


def test_paced_passes_change_no_number_where_all_are_waited_for() -> None:
    data = list(batches((12, 7, 12)))
    with trainer(Discipline(waits=CutOff(3))) as paced, trainer(Discipline(), local_cluster(3)) as plain:
        assert [paced.step(batch) for batch in data] == [plain.step(batch) for batch in data]
        assert weights(paced) == weights(plain)
        notes = [any("Passes are paced" in note for note in trained.notes) for trained in (paced, plain)]
        assert notes == [True, False]


def test_the_late_can_be_stopped_on_paced_nodes_only() -> None:
    with (
        trainer(Discipline(waits=CutOff(2, "stop")), local_cluster(3)) as made,
        pytest.raises(SpecError, match="Only passes on paced nodes can be stopped"),
    ):
        made.step(next(batches((12,))))


@pytest.mark.quick("seldom")
@pytest.mark.parametrize("discipline", [Discipline(), Discipline(Rhythm(3))], ids=["plain", "seldom"])
def test_another_number_of_workers_goes_on_from_what_was_saved(discipline: Discipline, tmp_path: Path) -> None:
    data = list(batches((12, 12, 12, 12)))
    with trainer(discipline, local_cluster(3)) as three, trainer(discipline, local_cluster(2)) as two:
        for batch in data[:2]:
            three.step(batch)
        three.save(tmp_path / "three.keras")
        two.restore(tmp_path / "three.keras")
        two.step(data[2])
        assert two.steps == 3
        two.save(tmp_path / "two.keras")
    with trainer(Discipline(), local_cluster(1)) as single:
        single.restore(tmp_path / "three.keras")
        single.step(data[2])
        single.update_model()
        if not discipline.rhythm:  # two replicas have taken two local steps
            for variable, expected in zip(single.model.variables, two.model.variables, strict=True):
                np.testing.assert_allclose(variable.numpy(), expected.numpy(), rtol=0, atol=1e-5)
