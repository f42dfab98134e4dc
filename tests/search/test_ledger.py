"""The ledger: new strategies, pending proposals, measurements."""

from __future__ import annotations

from dataclasses import replace

from autosync.baselines import BASELINES
from autosync.search.ledger import Ledger
from autosync.search.protocol import Proposal
from autosync.spec import ParameterServer, Strategy, VariableStrategy
from search_spaces.default import SPACE
from tests.cases import mlp_model, star_cluster
from tests.search.laws import timed, truth

MODEL, CLUSTER = mlp_model(), star_cluster(3)
SPACE_HERE = SPACE.bind(MODEL, CLUSTER)


def on_server(device: str) -> Strategy:
    shards = (ParameterServer(device),)
    return Strategy(SPACE_HERE.replicas, tuple(VariableStrategy(variable.name, shards) for variable in MODEL.variables))


def test_a_strategy_that_differs_only_by_devices_that_are_alike_is_not_new():
    ledger = Ledger(SPACE_HERE, [])
    ledger.claim(Proposal(on_server("node1/cpu:0"), "baseline"))
    assert not ledger.is_new(on_server("node2/cpu:0"))


def test_a_strategy_in_another_order_is_not_new():
    ledger = Ledger(SPACE_HERE, [])
    strategy = BASELINES["all_reduce_25mb"](MODEL, CLUSTER)
    ledger.claim(Proposal(strategy, "baseline"))
    assert not ledger.is_new(Strategy(strategy.replicas[::-1], strategy.variables[::-1]))


def test_a_strategy_measured_several_times_counts_with_the_median_of_its_medians():
    ledger = Ledger(SPACE_HERE, [])
    record = timed(SPACE_HERE, Proposal(on_server("node0/cpu:0"), "baseline"), truth())
    for turn, seconds in enumerate((0.3, 0.1, 0.2)):
        ledger.tell(replace(record, started_at=float(turn), step_seconds=(seconds,)))
    (observation,) = ledger.observations()
    assert observation.median_seconds == 0.2
    assert len(ledger.records()) == 3


def test_failed_strategies_are_seen_but_not_observed():
    ledger = Ledger(SPACE_HERE, [])
    record = timed(SPACE_HERE, Proposal(on_server("node0/cpu:0"), "baseline"), truth())
    ledger.tell(replace(record, outcome="failed", reason="out of memory", step_seconds=()))
    assert ledger.observations() == []
    assert not ledger.is_new(record.strategy)
