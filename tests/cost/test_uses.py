"""Strategies processed together have the same uses as one by one, independent of the strategies seen before."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

from autosync.cost import AnalyticSimulator
from autosync.cost.closed_form import loads as loads_module
from autosync.cost.closed_form import rows as decision_rows_module
from autosync.cost.closed_form.batch import Uses, uses_of_entries, uses_of_rows
from autosync.cost.closed_form.entries import entries_of
from autosync.cost.closed_form.rows import ENCODED, MIXED, DecisionRows
from autosync.cost.closed_form.tables import cost_tables
from autosync.errors import SpecError
from autosync.layout.channels import Channel
from autosync.layout.exchange import Quantities
from autosync.spec import (
    AllReduce,
    Cast,
    ClusterSpec,
    ModelSpec,
    ParameterServer,
    Partition,
    Strategy,
    VariableStrategy,
)
from search_spaces.default import SPACE
from tests import cases
from tests.space.samples import sampled
from tests.space.wide import factored_model

COPIED = replace(cases.copied_model(cases.drawn_model(cases.ncf_like_model())), name="copied")
MODELS = (cases.bert_like_model(), cases.ncf_like_model(), COPIED, cases.mixed_precision_model(), cases.scalar_model())
CLUSTERS = (cases.star_cluster(), cases.uneven_cluster(), cases.gpu_cluster())

Summed = dict[tuple[object, ...], np.ndarray]


def plain(model: ModelSpec, cluster: ClusterSpec, count: int, seed: int = 0) -> list[Strategy]:
    """Strategies that encode no gradients; some are mutations of others."""
    space, rng = SPACE.bind(model, cluster), random.Random(seed)
    drawn = [space.sample(rng) for _ in range(count // 2)]
    return drawn + [space.mutate(rng.choice(drawn), rng) for _ in range(count - len(drawn))]


def half_encoded(model: ModelSpec, cluster: ClusterSpec) -> list[Strategy]:
    """Two strategies in which one variable is cut in two, and one of the two shards is encoded."""
    strategy, device = plain(model, cluster, 2)[0], str(cluster.server_devices[0])
    cut = next(at for at, variable in enumerate(model.variables) if not variable.sparse and variable.shape[:1] > (1,))
    strategies = []
    for plain_shard in (AllReduce(10**6), ParameterServer(device)):
        shards = (ParameterServer(device, compressor=Cast("bf16")), plain_shard)
        decision = VariableStrategy(model.variables[cut].name, shards, Partition(0, 2))
        variables = (*strategy.variables[:cut], decision, *strategy.variables[cut + 1 :])
        strategies.append(replace(strategy, variables=variables))
    return strategies


def summed(uses: Uses, channels: list[Channel]) -> Summed:
    """Each strategy's uses, summed by channel and phase, and its chains, independent of the number of entries."""
    sums: Summed = defaultdict(lambda: np.zeros(len(Quantities._fields) + 1))
    for owner, phase, channel, weighs, shards in zip(
        uses.owner, uses.phase, uses.channel, uses.quantities, uses.shards, strict=True
    ):
        sums[int(owner), int(phase), channels[channel]] += np.append(weighs, shards)
    for owner, phase, seconds, latency in zip(
        uses.chain_owner, uses.chain_phase, uses.chain_seconds, uses.chain_latency, strict=True
    ):
        sums["chain", int(owner), int(phase), round(float(seconds), 12), float(latency)] += 1
    for owner, size in zip(uses.bucket_owner, uses.bucket_bytes, strict=True):
        sums["bucket", int(owner), float(size)] += 1
    return dict(sums)


@pytest.mark.parametrize("cluster", CLUSTERS, ids=["star", "uneven", "gpus"])
@pytest.mark.parametrize("model", MODELS, ids=[model.name for model in MODELS])
def test_uses_of_strategies_together_equal_their_uses_one_by_one(model: ModelSpec, cluster: ClusterSpec) -> None:
    strategies = plain(model, cluster, 40)
    tables, numbers = cost_tables(model, cluster, strategies[0].replicas), dict[Channel, int]()
    one_by_one = uses_of_entries(
        [entries_of(tables, strategy.variables, numbers) for strategy in strategies], range(40)
    )
    decisions = DecisionRows(tables)
    owners, places = decisions.rows_of(decisions.numbers_of(strategies))
    together = uses_of_rows(tables, decisions.channels, decisions.table, owners, places)
    expected, found = summed(one_by_one, list(numbers)), summed(together, decisions.channels)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-12)


def test_equal_decisions_have_one_number_and_those_that_encode_gradients_have_none() -> None:
    model, cluster = MODELS[0], CLUSTERS[0]
    strategies = [*sampled(model, cluster, 20), *half_encoded(model, cluster)]
    decisions = DecisionRows(cost_tables(model, cluster, strategies[0].replicas))
    numbers = decisions.numbers_of(strategies)
    copies = [Strategy.from_json(strategy.to_json()) for strategy in strategies]
    np.testing.assert_array_equal(decisions.numbers_of(copies), numbers)
    encoded = [
        [[shard.compressor is not None for shard in decision.shards] for decision in strategy.variables]
        for strategy in strategies
    ]
    expected = [
        [ENCODED if all(shards) else MIXED if any(shards) else 1 for shards in of_strategy] for of_strategy in encoded
    ]
    np.testing.assert_array_equal(np.minimum(numbers, 1), expected)
    assert {ENCODED, MIXED} <= {*numbers.ravel().tolist()}
    pairs = zip(strategies, numbers[:, 2], strict=True)
    different = {(strategy.variables[2], int(number)) for strategy, number in pairs}
    kept = {pair for pair in different if pair[1] not in (ENCODED, MIXED)}
    assert len({number for _, number in kept}) == len(kept)


def test_decisions_that_encode_and_others_add_up_to_the_whole_strategy() -> None:
    model, cluster = factored_model(MODELS[0]), CLUSTERS[0]
    strategies = [*sampled(model, cluster, 60), *plain(model, cluster, 8), *half_encoded(model, cluster)]
    tables, numbers = cost_tables(model, cluster, strategies[0].replicas), dict[Channel, int]()
    one_by_one = uses_of_entries(
        [entries_of(tables, strategy.variables, numbers) for strategy in strategies], range(70)
    )
    channels, together = loads_module._uses(tables, model, strategies)
    expected, found = summed(one_by_one, list(numbers)), summed(together, channels)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-12)


def test_decisions_that_are_forgotten_are_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model, cluster = MODELS[0], CLUSTERS[0]
    strategies = plain(model, cluster, 30)
    expected = AnalyticSimulator().predict(model, cluster, strategies)
    monkeypatch.setattr(decision_rows_module, "MOST_DECISIONS", 20)
    again = [AnalyticSimulator().predict(model, cluster, [strategy])[0] for strategy in strategies]
    np.testing.assert_allclose(again, expected, rtol=0, atol=1e-12)


def test_one_strategy_of_many_that_does_not_fit_is_named_and_harms_no_other() -> None:
    model, cluster = MODELS[0], CLUSTERS[0]
    good = plain(model, cluster, 5, seed=3)
    bad = replace(good[0], variables=good[0].variables[1:])
    with pytest.raises(SpecError, match="has no synchronizer"):
        AnalyticSimulator().predict(model, cluster, [*good, bad])
    strange = sampled(model, cases.star_cluster(8), 1)[0]
    with pytest.raises(SpecError):
        AnalyticSimulator().predict(model, cluster, [*good, replace(strange, replicas=good[0].replicas)])
    assert np.isfinite(AnalyticSimulator().predict(model, cluster, good)).all()
