"""A strategy's graph has an edge for each shard, goes both ways, and is independent of numbering."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from autosync.cost import Replay
from autosync.simulator.encoding import BUCKET_INPUTS, EDGE_INPUTS, LINK_INPUTS, SERVER_INPUTS, Encoder, GraphEncoding
from autosync.spec import AllReduce, ClusterSpec, ParameterServer, Strategy
from tests import cases
from tests.space.samples import sampled

MODEL = cases.ncf_like_model()
CLUSTERS = [
    cases.star_cluster(),
    cases.uneven_cluster(),
    cases.rack_cluster(),
    cases.gpu_cluster(),
    cases.local_cluster(),
]


def graph(cluster: ClusterSpec, strategy: Strategy, topology: bool = True) -> GraphEncoding:
    encoder = Encoder(MODEL, cluster, strategy.replicas)
    figures = Replay().figures(MODEL, cluster, strategy)
    order = np.arange(len(MODEL.variables))
    return encoder.graph(encoder.shards(strategy), order, figures, topology)


def kinds(result: GraphEncoding) -> Counter[str]:
    """Count the edges of each kind, both ways together."""
    return Counter({name: int(result.edge_inputs[:, place].sum()) for place, name in enumerate(EDGE_INPUTS[:4])})


@pytest.mark.parametrize("cluster", CLUSTERS, ids=["star", "uneven", "racks", "gpus", "local"])
def test_every_shard_is_an_edge_and_every_edge_has_its_way_back(cluster: ClusterSpec) -> None:
    for strategy in sampled(MODEL, cluster, 6):
        result = graph(cluster, strategy)
        shards = [(decision, shard) for decision, _, shard in strategy.shards()]
        served = sum(isinstance(shard, ParameterServer) for _, shard in shards)
        sparse = sum(isinstance(s, AllReduce) and MODEL.by_name[decision.variable].sparse for decision, s in shards)
        assert kinds(result)["placement"] == 2 * served
        assert kinds(result)["membership"] == 2 * (len(shards) - served - sparse)
        assert kinds(result)["data_flow"] == 2 * (len(MODEL.variables) - 1)
        pairs = Counter(map(tuple, result.edges.T.tolist()))
        assert all(pairs[target, source] == count for (source, target), count in pairs.items())
        nodes = sum(map(len, (MODEL.variables, result.servers, result.buckets, result.links))) + result.switches + 1
        assert result.edges.max() == nodes - 1
        assert result.edges.min() == 0


def test_arrays_are_as_wide_as_their_inputs_have_names() -> None:
    cluster = cases.rack_cluster()
    for strategy in sampled(MODEL, cluster, 6):
        result = graph(cluster, strategy)
        widths = [array.shape[1] for array in (result.servers, result.buckets, result.links, result.edge_inputs)]
        assert widths == [len(names) for names in (SERVER_INPUTS, BUCKET_INPUTS, LINK_INPUTS, EDGE_INPUTS)]
        assert len(result.servers) == len(cluster.server_devices)
        assert len(result.links) == len(cluster.links)


def test_a_link_between_racks_stands_out_and_joins_two_switches() -> None:
    cluster = cases.rack_cluster()
    result = graph(cluster, sampled(MODEL, cluster, 1)[0])
    between = result.links[:, LINK_INPUTS.index("between_switches")]
    names = [(link.source, link.target) for link in cluster.links]
    assert [pair for pair, is_between in zip(names, between, strict=True) if is_between] == [
        ("rack0", "rack1"),
        ("rack1", "rack0"),
    ]
    rates = dict(zip(names, result.links[:, 0].tolist(), strict=True))
    assert rates["rack0", "rack1"] == pytest.approx(rates["node0", "rack0"] - np.log(2))
    assert result.switches == 2


def test_without_topology_there_are_no_links_and_switches() -> None:
    cluster = cases.rack_cluster()
    strategy = sampled(MODEL, cluster, 1)[0]
    result = graph(cluster, strategy, topology=False)
    assert len(result.links) == result.switches == 0
    with_it = graph(cluster, strategy)
    for kind in ("placement", "membership", "data_flow"):
        assert kinds(result)[kind] == kinds(with_it)[kind]
    assert 0 < kinds(result)["topology"] < kinds(with_it)["topology"]
