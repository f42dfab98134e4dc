"""Strategies that differ only by exchanging devices that are alike get the same canonical form."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosync.spec import (
    AllReduce,
    ClusterSpec,
    Figure,
    ParameterServer,
    Partition,
    Strategy,
    VariableStrategy,
    canonical_strategy,
)
from tests import cases

CLUSTERS = {
    "local": cases.local_cluster(),
    "star": cases.star_cluster(),
    "star of pairs": cases.star_cluster(nodes=3, workers=2),
    "uneven": cases.uneven_cluster(),
    "racks": cases.rack_cluster(),
    "gpus": cases.gpu_cluster(),
}


def on(cluster: ClusterSpec, *devices: str) -> Strategy:
    """A variable per device, `v0`, `v1`, ..., with replicas on all replica devices of the cluster."""
    variables = tuple(VariableStrategy(f"v{index}", (ParameterServer(device),)) for index, device in enumerate(devices))
    return Strategy(tuple(map(str, cluster.replica_devices)), variables)


def devices_of(strategy: Strategy) -> list[str]:
    return [shard.device for _, _, shard in strategy.shards() if isinstance(shard, ParameterServer)]


def random_strategy(cluster: ClusterSpec, rng: random.Random) -> Strategy:
    servers = [str(device) for device in cluster.server_devices]

    def shard() -> AllReduce | ParameterServer:
        return AllReduce(rng.randrange(4)) if rng.random() < 0.3 else ParameterServer(rng.choice(servers))

    variables = []
    for index in range(rng.randint(1, 6)):
        count = rng.choice((1, 1, 2, 3))
        cut = Partition(0, count) if count > 1 else None
        variables.append(VariableStrategy(f"v{index}", tuple(shard() for _ in range(count)), cut))
    return Strategy(tuple(map(str, cluster.replica_devices)), tuple(variables))


def automorphisms(cluster: ClusterSpec) -> list[dict[str, str]]:
    """Every renaming of server devices that leaves the cluster unchanged, by brute force over nodes and workers."""
    names = [node.name for node in cluster.nodes]
    renamings = []
    for order in permutations(names):
        to = dict(zip(names, order, strict=True))
        looks = [(node.cores, node.workers, node.gpus) for node in cluster.nodes]
        renamed_looks = [(node.cores, node.workers, node.gpus) for node in map(cluster.node, order)]
        links = {(link.source, link.target): link.gbit_per_s.value for link in cluster.links}
        renamed = {(to.get(source, source), to.get(target, target)): rate for (source, target), rate in links.items()}
        if looks == renamed_looks and links == renamed:
            renamings.append({f"{name}/cpu:{k}": f"{to[name]}/cpu:{k}" for name in names for k in range(2)})
    return renamings


def renamed(strategy: Strategy, names: dict[str, str]) -> Strategy:
    variables = tuple(
        replace(
            decision,
            shards=tuple(
                replace(shard, device=names[shard.device]) if isinstance(shard, ParameterServer) else shard
                for shard in decision.shards
            ),
        )
        for decision in strategy.variables
    )
    return replace(strategy, variables=variables)


def test_worker_processes_of_one_node_are_named_in_order_of_first_use():
    cluster = cases.local_cluster()
    strategy = on(cluster, "node0/cpu:3", "node0/cpu:1", "node0/cpu:3", "node0/cpu:0")
    assert devices_of(canonical_strategy(strategy, cluster)) == [
        "node0/cpu:0",
        "node0/cpu:1",
        "node0/cpu:0",
        "node0/cpu:2",
    ]


def test_equal_nodes_are_exchanged_with_all_their_workers():
    cluster = cases.star_cluster(nodes=3, workers=2)
    strategy = on(cluster, "node2/cpu:1", "node0/cpu:1", "node2/cpu:0")
    assert devices_of(canonical_strategy(strategy, cluster)) == ["node0/cpu:0", "node1/cpu:0", "node0/cpu:1"]


def test_only_the_nodes_that_are_alike_change_places_in_an_uneven_cluster():
    cluster = cases.uneven_cluster()
    strategy = on(cluster, "node3/cpu:0", "node2/cpu:0", "node1/cpu:0", "node0/cpu:1")
    assert devices_of(canonical_strategy(strategy, cluster)) == [
        "node3/cpu:0",
        "node1/cpu:0",
        "node2/cpu:0",
        "node0/cpu:0",
    ]


def test_a_node_is_not_exchanged_for_one_in_another_rack():
    cluster = cases.rack_cluster()
    strategy = on(cluster, "node3/cpu:0", "node2/cpu:0", "node1/cpu:0")
    assert devices_of(canonical_strategy(strategy, cluster)) == ["node2/cpu:0", "node3/cpu:0", "node0/cpu:0"]


def test_servers_beside_gpus_are_exchanged_with_their_nodes():
    cluster = cases.gpu_cluster()
    assert devices_of(canonical_strategy(on(cluster, "node1/cpu:0"), cluster)) == ["node0/cpu:0"]


def test_a_worker_with_a_replica_is_not_exchanged_for_one_without():
    cluster = cases.local_cluster()
    strategy = replace(on(cluster, "node0/cpu:3", "node0/cpu:1"), replicas=("node0/cpu:0", "node0/cpu:1"))
    assert devices_of(canonical_strategy(strategy, cluster)) == ["node0/cpu:2", "node0/cpu:0"]


def test_a_node_with_replicas_is_not_exchanged_for_one_without():
    cluster = cases.star_cluster()
    strategy = replace(on(cluster, "node3/cpu:0", "node1/cpu:0"), replicas=("node0/cpu:0", "node1/cpu:0"))
    assert devices_of(canonical_strategy(strategy, cluster)) == ["node2/cpu:0", "node0/cpu:0"]


def test_devices_kept_apart_are_not_exchanged():
    cluster = cases.local_cluster()
    strategy = on(cluster, "node0/cpu:3", "node0/cpu:2")
    apart = (frozenset({"node0/cpu:1", "node0/cpu:3"}),)
    assert devices_of(canonical_strategy(strategy, cluster, apart)) == ["node0/cpu:1", "node0/cpu:0"]


def test_a_device_the_cluster_lacks_keeps_its_name():
    cluster = cases.local_cluster()
    strategy = on(cluster, "elsewhere/cpu:0", "node0/cpu:2")
    assert devices_of(canonical_strategy(strategy, cluster)) == ["elsewhere/cpu:0", "node0/cpu:0"]


def test_probing_noise_in_rates_and_latencies_keeps_nodes_alike():
    cluster = cases.star_cluster(gbit_per_s=1.0)
    links = tuple(
        replace(
            link,
            gbit_per_s=Figure(link.gbit_per_s.value * (1 + 0.01 * index), "measured"),
            latency_us=Figure(link.latency_us.value + index, "measured"),
        )
        for index, link in enumerate(cluster.links)
    )
    noisy = replace(cluster, links=links)
    assert devices_of(canonical_strategy(on(noisy, "node3/cpu:0"), noisy)) == ["node0/cpu:0"]


def test_groups_are_numbered_in_the_order_given():
    cluster = cases.local_cluster()
    variables = tuple(VariableStrategy(f"v{index}", (AllReduce(group),)) for index, group in enumerate((7, 3, 7)))
    canonical = canonical_strategy(Strategy(("node0/cpu:0",), variables), cluster)
    assert [shard for _, _, shard in canonical.shards()] == [AllReduce(0), AllReduce(1), AllReduce(0)]


def test_a_canonical_strategy_comes_back_as_it_is():
    cluster = cases.star_cluster()
    strategy = on(cluster, "node0/cpu:0", "node1/cpu:0")
    assert canonical_strategy(strategy, cluster) is strategy


@pytest.mark.parametrize("name", CLUSTERS)
@given(seed=st.integers(0, 10**9))
def test_naming_twice_changes_nothing(name: str, seed: int):
    cluster = CLUSTERS[name]
    once = canonical_strategy(random_strategy(cluster, random.Random(seed)), cluster)
    assert canonical_strategy(once, cluster) is once


@pytest.mark.parametrize("name", ["star", "star of pairs", "uneven", "gpus"])
@given(seed=st.integers(0, 10**9))
def test_every_automorphism_of_the_nodes_leads_to_the_same_name(name: str, seed: int):
    cluster, rng = CLUSTERS[name], random.Random(seed)
    strategy = random_strategy(cluster, rng)
    exchanged = renamed(strategy, rng.choice(automorphisms(cluster)))
    assert canonical_strategy(exchanged, cluster) == canonical_strategy(strategy, cluster)


@pytest.mark.parametrize("name", ["star", "uneven", "racks", "gpus"])
@given(seed=st.integers(0, 10**9))
def test_naming_is_itself_an_automorphism(name: str, seed: int):
    cluster = CLUSTERS[name]
    strategy = random_strategy(cluster, random.Random(seed))
    canonical = canonical_strategy(strategy, cluster).with_groups_renumbered()
    assert any(
        {before: names[before] for before in devices_of(strategy)}
        == dict(zip(devices_of(strategy), devices_of(canonical), strict=True))
        for names in [*automorphisms(cluster), *_with_workers_exchanged(cluster)]
    )


def _with_workers_exchanged(cluster: ClusterSpec) -> list[dict[str, str]]:
    """Automorphisms of the nodes, followed by an exchange of the two workers of `node0`."""
    swap = {"node0/cpu:0": "node0/cpu:1", "node0/cpu:1": "node0/cpu:0"}
    return [{before: swap.get(after, after) for before, after in names.items()} for names in automorphisms(cluster)]


@given(seed=st.integers(0, 10**9))
def test_the_order_in_which_variables_are_listed_does_not_matter(seed: int):
    cluster, rng = cases.star_cluster(nodes=3, workers=2), random.Random(seed)
    strategy = random_strategy(cluster, rng)
    shuffled = replace(strategy, variables=tuple(rng.sample(strategy.variables, len(strategy.variables))))
    assert canonical_strategy(shuffled, cluster).digest == canonical_strategy(strategy, cluster).digest


@given(seed=st.integers(0, 10**9))
def test_worker_processes_of_one_node_can_be_permuted_at_will(seed: int):
    cluster, rng = cases.local_cluster(), random.Random(seed)
    strategy = random_strategy(cluster, rng)
    servers = [str(device) for device in cluster.server_devices]
    names = dict(zip(servers, rng.sample(servers, len(servers)), strict=True))
    assert canonical_strategy(renamed(strategy, names), cluster) == canonical_strategy(strategy, cluster)
