"""Traffic agrees with textbooks: bytes and messages over every link, bytes summed and updated on servers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from autosync.cost import traffic
from autosync.errors import SpecError
from autosync.layout.fusion import piece_sizes
from autosync.spec import AllReduce, Cast, ModelSpec, ParameterServer, Strategy, Variable, VariableStrategy
from tests import cases
from tests.cost.cases import all_by, dense_model, link_bytes, link_messages, sparse_model, strategy_of

MEGABYTE = 1e6


@pytest.mark.parametrize("nodes", [2, 3, 4, 8])
def test_a_ring_sends_two_n_minus_one_over_n_of_its_bytes_from_every_replica(nodes: int) -> None:
    cluster = cases.star_cluster(nodes)
    found = traffic(dense_model(), cluster, strategy_of(cluster, AllReduce(0)))
    expected = round(2 * (nodes - 1) / nodes * 4 * MEGABYTE, 6)
    ends = [f"node{index}>switch" for index in range(nodes)] + [f"switch>node{index}" for index in range(nodes)]
    assert link_bytes(found, cluster) == dict.fromkeys(ends, expected)
    assert link_messages(found, cluster) == dict.fromkeys(ends, 2 * (nodes - 1))
    assert not found.reduced_bytes.any()


def test_a_ring_of_four_workers_on_one_machine_crosses_the_loopback_four_times() -> None:
    cluster = cases.local_cluster(4)
    found = traffic(dense_model(), cluster, strategy_of(cluster, AllReduce(0)))
    assert link_bytes(found, cluster) == {"node0>node0": 4 * 1.5 * 4 * MEGABYTE}
    assert link_messages(found, cluster) == {"node0>node0": 24}


def test_a_ring_of_one_replica_sends_nothing() -> None:
    cluster = cases.local_cluster(1)
    assert link_bytes(traffic(dense_model(), cluster, strategy_of(cluster, AllReduce(0))), cluster) == {}


def test_a_ring_over_gpus_crosses_the_network_once_a_node_and_the_loopback_between_neighbours() -> None:
    cluster = cases.gpu_cluster(nodes=2, gpus=4)
    model = ModelSpec("w", 8, "optimizer", 0, (Variable("w", (8000,), "float32", 0),))
    found = link_bytes(traffic(model, cluster, strategy_of(cluster, AllReduce(0))), cluster)
    sent = 2 * 7 / 8 * 32_000
    network = {
        f"{end}>{end_of_link}": sent for node in "01" for end, end_of_link in _both_ways(f"node{node}", "switch")
    }
    assert found == network | {"node0>node0": 3 * sent, "node1>node1": 3 * sent}


def _both_ways(first: str, second: str) -> list[tuple[str, str]]:
    return [(first, second), (second, first)]


def test_a_bucket_with_fewer_elements_than_replicas_sends_fewer_chunks() -> None:
    cluster = cases.star_cluster(4)
    found = traffic(dense_model(elements=2), cluster, strategy_of(cluster, AllReduce(0)))
    assert set(link_messages(found, cluster).values()) == {3}


def test_shards_of_one_group_share_messages_and_those_of_two_groups_do_not() -> None:
    cluster = cases.star_cluster(4)
    together = traffic(dense_model(), cluster, strategy_of(cluster, AllReduce(3), AllReduce(3)))
    apart = traffic(dense_model(), cluster, strategy_of(cluster, AllReduce(0), AllReduce(1)))
    assert together.bytes == pytest.approx(apart.bytes)
    assert apart.messages == pytest.approx(2 * together.messages)


def test_a_parameter_server_is_an_incast_of_all_other_workers() -> None:
    cluster = cases.star_cluster(4)
    found = traffic(dense_model(slots=2), cluster, strategy_of(cluster, ParameterServer("node1/cpu:0")))
    others = {f"node{index}>switch": 4 * MEGABYTE for index in (0, 2, 3)}
    others |= {f"switch>node{index}": 4 * MEGABYTE for index in (0, 2, 3)}
    assert link_bytes(found, cluster) == others | {"node1>switch": 12 * MEGABYTE, "switch>node1": 12 * MEGABYTE}
    assert link_messages(found, cluster)["node1>switch"] == 3 * len(piece_sizes(1_000_000, 4))
    assert found.reduced_bytes.tolist() == [0, 16 * MEGABYTE, 0, 0]
    assert found.updated_bytes.tolist() == [0, 12 * MEGABYTE, 0, 0]


def test_small_shards_of_a_server_share_messages_unless_each_has_a_scale() -> None:
    cluster = cases.star_cluster(4)
    variables = tuple(Variable(f"w{index}", (100, 10), "float32", index) for index in range(20))
    model = ModelSpec("small", 8, "SGD", 0, variables)
    for compressor, messages in ((None, 1), (Cast("bf16"), 1), (Cast("fp16"), 20 + 20)):
        server = ParameterServer("node1/cpu:0", compressor=compressor)
        found = link_messages(traffic(model, cluster, all_by(model, cluster, server)), cluster)
        assert found["node0>switch"] == pytest.approx(messages)


def test_shards_on_all_servers_load_every_link_equally_like_a_ring() -> None:
    cluster = cases.star_cluster(4)
    servers = [ParameterServer(f"node{index}/cpu:0") for index in range(4)]
    cut = traffic(dense_model(), cluster, strategy_of(cluster, *servers))
    ring = traffic(dense_model(), cluster, strategy_of(cluster, AllReduce(0)))
    assert cut.bytes == pytest.approx(ring.bytes)


def test_uneven_shards_weigh_what_their_rows_weigh() -> None:
    cluster = cases.star_cluster(2)
    servers = [ParameterServer("node0/cpu:0"), ParameterServer("node1/cpu:0")]
    found = link_bytes(traffic(dense_model(elements=7), cluster, strategy_of(cluster, *servers)), cluster)
    assert found["node0>switch"] == 4 * 4 + 3 * 4
    assert found["node1>switch"] == 3 * 4 + 4 * 4


def test_a_local_copy_crosses_once_to_each_other_node() -> None:
    cluster = cases.star_cluster(2, workers=3)
    model = dense_model(elements=1000)
    plain = link_bytes(traffic(model, cluster, strategy_of(cluster, ParameterServer("node0/cpu:1"))), cluster)
    copied = link_bytes(traffic(model, cluster, strategy_of(cluster, ParameterServer("node0/cpu:1", True))), cluster)
    # Pulling: three times without a copy, once with a copy. Pushing: summed on node1 first, then once, in both cases.
    assert plain["node0>switch"] == 3 * 4000
    assert copied["node0>switch"] == 4000
    assert plain["node1>switch"] == copied["node1>switch"] == 4000
    # On node0 two workers pull and push. On node1 two workers push to the first worker, and receive copies from it.
    assert plain["node0>node0"] == copied["node0>node0"] == 4 * 4000
    assert plain["node1>node1"] == 2 * 4000
    assert copied["node1>node1"] == 4 * 4000


def test_gradients_of_a_nodes_gpus_are_summed_there_and_sent_once() -> None:
    cluster = cases.gpu_cluster(nodes=2, gpus=4)
    model = dense_model(elements=1000)
    found = traffic(model, cluster, strategy_of(cluster, ParameterServer("node0/cpu:0")))
    # The server's own GPUs share its process; the four GPUs of the other node pull one by one.
    expected = {"node0>switch": 16_000, "switch>node1": 16_000, "node1>switch": 4000, "switch>node0": 4000}
    assert link_bytes(found, cluster) == expected
    assert found.reduced_bytes.tolist() == [5 * 4000, 0]
    copied = traffic(model, cluster, strategy_of(cluster, ParameterServer("node0/cpu:0", local_copy=True)))
    assert set(link_bytes(copied, cluster).values()) == {4000}


def test_only_touched_rows_of_a_sparse_variable_travel_to_its_server_and_back() -> None:
    cluster = cases.star_cluster(3)
    found = traffic(sparse_model(), cluster, strategy_of(cluster, ParameterServer("node0/cpu:0")))
    rows, numbers = 50 * 10 * 4, 50 * 4
    # To the server: row numbers, then gradients. Back: rows.
    assert link_bytes(found, cluster)["node1>switch"] == rows + numbers
    assert link_bytes(found, cluster)["switch>node1"] == rows
    assert link_bytes(found, cluster)["switch>node0"] == 2 * (rows + numbers)
    assert found.reduced_bytes.tolist() == [3 * rows, 0, 0]


@pytest.mark.parametrize(("of_two", "answered"), [(None, 50), (50.0, 50), (75.0, 87.5), (100.0, 150), (100.0, 120)])
def test_a_server_of_copies_sends_back_the_rows_of_all_replicas(of_two: float | None, answered: float) -> None:
    """Three replicas touch 50 rows each. If two touch 75 together, s = 1/2, so three touch 50 (1 - 1/8) / (1/2)."""
    model, cluster = sparse_model(rows=120 if answered == 120 else 1000), cases.star_cluster(3)
    copied = cases.copied_model(replace(model, variables=(replace(model.variables[0], rows_of_two=of_two),)))
    servers = strategy_of(cluster, ParameterServer("node0/cpu:0"))
    found = traffic(copied, cluster, servers)
    assert link_bytes(found, cluster)["node1>switch"] == 50 * 40 + 50 * 4
    assert link_bytes(found, cluster)["switch>node1"] == answered * (40 + 4)
    assert found.reduced_bytes.tolist() == [3 * 50 * 40, 0, 0]
    assert link_bytes(traffic(copied, cluster, strategy_of(cluster, AllReduce(0))), cluster) == link_bytes(
        traffic(model, cluster, strategy_of(cluster, AllReduce(0))), cluster
    )


def test_sparse_rows_divide_over_shards_by_their_rows() -> None:
    cluster = cases.star_cluster(2)
    servers = [ParameterServer("node0/cpu:0"), ParameterServer("node1/cpu:0")]
    found = link_bytes(traffic(sparse_model(rows=5, touched=5.0), cluster, strategy_of(cluster, *servers)), cluster)
    assert found["node1>switch"] == 3 * (40 + 4) + 2 * 40


def test_an_optimizer_with_slots_updates_all_rows_and_one_without_only_touched_ones() -> None:
    cluster = cases.star_cluster(3)
    strategy = strategy_of(cluster, ParameterServer("node0/cpu:0"))
    assert traffic(sparse_model(slots=0), cluster, strategy).updated_bytes[0] == 3 * 50 * 40
    assert traffic(sparse_model(slots=2), cluster, strategy).updated_bytes[0] == 3 * 1000 * 40


def test_a_sparse_all_reduce_sends_every_replicas_rows_to_all_others() -> None:
    cluster = cases.star_cluster(4)
    found = traffic(sparse_model(), cluster, strategy_of(cluster, AllReduce(0)))
    assert set(link_bytes(found, cluster).values()) == {3 * 50 * (40 + 4)}


def test_replicas_left_out_of_a_strategy_send_nothing() -> None:
    cluster = cases.star_cluster(4)
    strategy = Strategy(("node0/cpu:0", "node2/cpu:0"), (VariableStrategy("w", (AllReduce(0),)),))
    assert set(link_bytes(traffic(dense_model(), cluster, strategy), cluster)) == {
        f"{source}>{target}" for node in "02" for source, target in _both_ways(f"node{node}", "switch")
    }


def test_a_route_over_several_switches_loads_every_link_of_it() -> None:
    cluster = cases.rack_cluster()
    found = link_bytes(traffic(dense_model(), cluster, strategy_of(cluster, ParameterServer("node0/cpu:0"))), cluster)
    assert found["rack0>rack1"] == 8 * MEGABYTE
    assert found["rack1>rack0"] == 8 * MEGABYTE


def test_a_strategy_that_does_not_fit_says_why() -> None:
    model, cluster = cases.mlp_model(), cases.star_cluster()
    faulty = {
        "cannot hold parameters": all_by(model, cluster, ParameterServer("node9/cpu:0")),
        "has no synchronizer": Strategy(("node0/cpu:0",), ()),
        "is not in the cluster": Strategy(("node7/cpu:0",), all_by(model, cluster, AllReduce(0)).variables),
        "belongs to one model": strategy_of(cluster, AllReduce(0)),
    }
    for message, strategy in faulty.items():
        with pytest.raises(SpecError, match=re.escape(message)):
            traffic(model, cluster, strategy)
