"""Every network keeps the same promises, and reads no withheld input."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

from autosync.cost import Replay
from autosync.errors import SpecError
from autosync.simulator import NETWORKS, Ablation, LearnedSimulator
from autosync.simulator.settings import NOTHING_WITHHELD
from autosync.spec import ModelSpec
from tests import cases
from tests.simulator.cases import CLUSTER, MODEL, QUICK, law, records
from tests.space.samples import sampled


def fresh(network: str, count: int = 30, ablation: Ablation = NOTHING_WITHHELD, seed: int = 0) -> LearnedSimulator:
    made = LearnedSimulator(Replay(), network, seed, QUICK, ablation)
    made.fit(records(count))
    return made


learned = cache(fresh)
"""A fitted network, cached because fits take long and predictions change nothing."""


@pytest.mark.quick("linear", "rnn", "gat")
@pytest.mark.parametrize("network", NETWORKS)
def test_without_records_a_network_adds_nothing_to_the_replay(network: str) -> None:
    unseen = sampled(MODEL, CLUSTER, 5)
    made = LearnedSimulator(Replay(), network)
    np.testing.assert_array_equal(made.predict(MODEL, CLUSTER, unseen), Replay().predict(MODEL, CLUSTER, unseen))


@pytest.mark.thorough
@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_errs_less_than_the_calibrated_replay(network: str) -> None:
    made, unseen = learned(network, 100), sampled(MODEL, CLUSTER, 60, seed=2)
    truth = law(MODEL, CLUSTER, unseen)
    errors = [np.abs(simulator.predict(MODEL, CLUSTER, unseen) - truth).mean() for simulator in (made, made.base)]
    assert errors[0] < 0.9 * errors[1]


@pytest.mark.thorough
@pytest.mark.parametrize("network", NETWORKS)
def test_two_fits_of_one_seed_are_equal_to_the_last_bit_and_leave_the_global_seed_alone(network: str) -> None:
    unseen = sampled(MODEL, CLUSTER, 5)
    state = torch.get_rng_state()
    first, second, third = learned(network, 20), fresh(network, 20), fresh(network, 20, seed=1)
    np.testing.assert_array_equal(first.predict(MODEL, CLUSTER, unseen), second.predict(MODEL, CLUSTER, unseen))
    assert (first.predict(MODEL, CLUSTER, unseen) != third.predict(MODEL, CLUSTER, unseen)).any()
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.thorough
@pytest.mark.parametrize("network", NETWORKS)
def test_a_network_speaks_about_models_and_clusters_it_has_not_met(network: str) -> None:
    made = learned(network, 20)
    for model in (cases.ncf_like_model(), cases.scalar_model(), cases.mlp_model()):
        for cluster in (cases.local_cluster(), cases.rack_cluster(), cases.gpu_cluster(), cases.uneven_cluster()):
            result = made.predict(model, cluster, sampled(model, cluster, 3))
            assert np.isfinite(result).all()


@pytest.mark.quick("linear")
@pytest.mark.parametrize("network", NETWORKS)
def test_records_of_several_models_and_clusters_are_learned_together(network: str) -> None:
    several = records(8) + records(8, model=cases.mlp_model()) + records(8, cluster=cases.rack_cluster())
    made = LearnedSimulator(Replay(), network, settings=QUICK)
    made.fit(several)
    assert np.isfinite(made.predict(MODEL, CLUSTER, sampled(MODEL, CLUSTER, 3))).all()


def backwards(model: ModelSpec) -> ModelSpec:
    """Return the model with its variables in reverse order and unchanged ready times."""
    return replace(model, variables=model.variables[::-1])


def moved(network: str, ablation: Ablation = NOTHING_WITHHELD) -> float:
    """Return the largest change of predictions when the model lists its variables in reverse order."""
    made, unseen = learned(network, ablation=ablation), sampled(MODEL, CLUSTER, 10)
    before, after = (made.predict(model, CLUSTER, unseen) for model in (MODEL, backwards(MODEL)))
    return float(np.abs(after - before).max())


def test_the_linear_network_does_not_read_the_order_of_variables() -> None:
    assert moved("linear") < 1e-9


def test_the_recurrent_network_reads_the_order_of_variables() -> None:
    assert moved("rnn") > 1e-4


@pytest.mark.thorough  # complete fits of the two slowest networks
@pytest.mark.parametrize("network", ["rnn", "gat"])
def test_shuffled_variables_come_in_another_order_for_each_strategy(network: str) -> None:
    unseen = sampled(MODEL, CLUSTER, 10)
    plain, shuffled = learned(network), learned(network, ablation=Ablation(shuffle_variables=True))
    assert (plain.predict(MODEL, CLUSTER, unseen) != shuffled.predict(MODEL, CLUSTER, unseen)).any()
    one_by_one = [shuffled.predict(MODEL, CLUSTER, [strategy])[0] for strategy in unseen]
    np.testing.assert_allclose(shuffled.predict(MODEL, CLUSTER, unseen), one_by_one, rtol=0, atol=1e-12)


def test_an_unknown_network_is_refused_with_those_there_are() -> None:
    with pytest.raises(SpecError, match=r"Unknown network 'cnn'\. Known: linear, rnn, gat\."):
        LearnedSimulator(Replay(), "cnn")
