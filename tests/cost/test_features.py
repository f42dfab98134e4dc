"""Features are dimensionless: they describe a strategy, independent of names and units of the cluster."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from autosync.cost import Coefficients
from autosync.simulator.encoding.pooled import FEATURES, feature_table
from autosync.spec import AllReduce, Cast, ClusterSpec, Figure, Link, ModelSpec, ParameterServer, Strategy, TopK
from search_spaces.default import SPACE
from tests import cases
from tests.cost.cases import all_by

MODEL, CLUSTER = cases.bert_like_model(), cases.star_cluster()


def features(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> dict[str, float]:
    return dict(zip(FEATURES, feature_table(model, cluster, [strategy], Coefficients())[0].tolist(), strict=True))


def test_a_table_has_a_row_a_strategy_and_a_named_column_a_feature() -> None:
    space, rng = SPACE.bind(MODEL, CLUSTER), random.Random(0)
    table = feature_table(MODEL, CLUSTER, [space.sample(rng) for _ in range(7)], Coefficients())
    assert table.shape == (7, len(FEATURES))
    assert table.dtype == np.float64
    assert np.isfinite(table).all()
    assert len(set(FEATURES)) == len(FEATURES)


def test_payload_shares_add_up_to_one() -> None:
    space, rng = SPACE.bind(MODEL, CLUSTER), random.Random(0)
    table = feature_table(MODEL, CLUSTER, [space.sample(rng) for _ in range(20)], Coefficients())
    not_by_synchronizer = ("early_payload_share", "late_payload_share")
    named = [name for name in FEATURES if name.endswith("_payload_share") and name not in not_by_synchronizer]
    assert len(named) == 9
    columns = [FEATURES.index(name) for name in named]
    assert table[:, columns].sum(axis=1) == pytest.approx(np.ones(20))


def test_features_describe_a_strategy() -> None:
    dense = cases.bert_like_model(sparse=False)
    ring = features(dense, CLUSTER, all_by(dense, CLUSTER, AllReduce(0)))
    server = features(dense, CLUSTER, all_by(dense, CLUSTER, ParameterServer("node0/cpu:0")))
    assert (ring["ring_payload_share"], server["dense_server_payload_share"]) == (1, 1)
    assert (ring["log_buckets"], server["log_buckets"]) == (pytest.approx(np.log(2)), 0)
    assert (ring["link_imbalance"], ring["servers_used_share"]) == (pytest.approx(np.log(1.5)), 0)
    assert server["link_imbalance"] > ring["link_imbalance"]
    assert server["servers_used_share"] == 0.25


def test_features_tell_algorithms_and_compressors_apart() -> None:
    dense = cases.bert_like_model(sparse=False)
    tree = features(dense, CLUSTER, all_by(dense, CLUSTER, AllReduce(0, "tree")))
    assert (tree["tree_payload_share"], tree["ring_payload_share"]) == (1, 0)
    assert tree["chain_share"] > tree["link_push_share"]
    top_k = features(dense, CLUSTER, all_by(dense, CLUSTER, AllReduce(0, compressor=TopK(0.01))))
    assert top_k["all_gather_payload_share"] == pytest.approx(1)
    whole, cast = (
        features(dense, CLUSTER, all_by(dense, CLUSTER, ParameterServer("node0/cpu:0", compressor=compressor)))
        for compressor in (None, Cast("bf16"))
    )
    assert whole["dense_server_payload_share"] == cast["dense_server_payload_share"] == 1
    assert whole["log_coded_over_gradient_bytes"] == 0 < cast["log_coded_over_gradient_bytes"]
    assert cast["log_pushed_over_gradient_bytes"] < whole["log_pushed_over_gradient_bytes"]


def test_features_stay_when_all_times_are_scaled() -> None:
    def slower(figure: Figure, factor: float) -> Figure:
        return Figure(figure.value * factor, figure.source)

    links = tuple(
        Link(link.source, link.target, slower(link.gbit_per_s, 0.1), slower(link.latency_us, 10.0))
        for link in CLUSTER.links
    )
    times = {name: 10 * value for name, value in Coefficients().to_json().items() if name != "overlap"}
    space = SPACE.bind(MODEL, CLUSTER)
    strategies = [space.sample(random.Random(seed)) for seed in range(5)]
    fast = feature_table(MODEL, CLUSTER, strategies, Coefficients())
    slow = feature_table(MODEL, replace(CLUSTER, links=links), strategies, Coefficients(**times))
    assert slow == pytest.approx(fast, rel=1e-9)
