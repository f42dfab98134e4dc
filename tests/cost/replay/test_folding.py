"""Shared data of interchangeable resources gives the same results as separate data for every resource."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from autosync.baselines import BASELINES
from autosync.cost.capacity import ResourceColumns
from autosync.cost.closed_form import matrices
from autosync.cost.closed_form.projection import Projection
from autosync.cost.closed_form.step_time import resource_seconds
from autosync.cost.closed_form.tables import cost_tables
from autosync.cost.coefficients import Coefficients, ReplayCoefficients
from autosync.cost.gather_counts import gather_pairs, work_of_gather
from autosync.cost.node_classes import NodeClasses
from autosync.cost.replay import ReplayedStep, places, step_of
from autosync.cost.replay.parts import Part, PartMaker
from autosync.cost.replay.places import NOTHING, Pattern, PlaceRun
from autosync.cost.replay.queues import replay_tasks
from autosync.cost.replay.recipes import Catalogue
from autosync.cost.replay.step import context_of
from autosync.layout.channels import GATHERED, Exchanges
from autosync.layout.exchange import Quantities, Stage
from autosync.layout.topology import Topology
from autosync.spec import AllReduce, ClusterSpec, Figure, Link, SharedCores, Strategy
from search_spaces.default import SPACE
from search_spaces.lossy import SPACE as LOSSY
from tests import cases
from tests.cost.cases import all_by

CLUSTERS = {
    "four": cases.star_cluster(4),
    "sixteen": cases.star_cluster(16),
    "of two workers": cases.star_cluster(7, workers=2),
    "of GPUs": cases.gpu_cluster(6, 4),
    "uneven": cases.uneven_cluster(),
    "racks": cases.racks(8, 8),
    "uneven racks": cases.racks(5, 3, 1),
    "on one machine": replace(
        cases.star_cluster(12),
        nodes=tuple(replace(node, shared_cores=SharedCores("one", 6.0)) for node in cases.star_cluster(12).nodes),
    ),
}
ASSUMED = ReplayCoefficients()


def strategies_on(cluster: ClusterSpec) -> list[Strategy]:
    """The baselines, and sampled strategies with and without compression."""
    model, rng = cases.bert_like_model(1), random.Random(3)
    spaces = [space.bind(model, cluster) for space in (SPACE, LOSSY)]
    return [baseline(model, cluster) for baseline in BASELINES.values()] + [
        space.sample(rng) for space in spaces for _ in range(8)
    ]


def new_step(cluster: ClusterSpec, strategy: Strategy) -> ReplayedStep:
    """The step with a new catalogue."""
    model = cases.bert_like_model(1)
    context = context_of(model, cluster, strategy)
    return replace(context, catalogue=Catalogue(ResourceColumns(cluster), strategy.replicas, model.slots)).step(
        strategy
    )


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_step_takes_as_long_as_with_all_servers_and_places_one_by_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = CLUSTERS[name]
    strategies = strategies_on(cluster)
    monkeypatch.setattr(places, "SHORTEST_RUN", 3)
    steps = [new_step(cluster, strategy) for strategy in strategies]
    assert any(pattern.runs for step in steps for pattern in step.tasks(ASSUMED).patterns)
    folded = [replay_tasks(step.fold(step.tasks(ASSUMED))).end.max() for step in steps]
    monkeypatch.setattr(NodeClasses, "stands_for", lambda _, device: device)
    alone = [
        replay_tasks(new_step(cluster, strategy).tasks(ASSUMED).without_runs()).end.max() for strategy in strategies
    ]
    assert folded == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("converted", [False, True])
def test_folded_channels_load_as_much_as_with_matrices_of_every_server(
    name: str, converted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = CLUSTERS[name]
    tables = cost_tables(cases.bert_like_model(1), cluster, tuple(map(str, cluster.replica_devices)))
    servers = [("dense_server", str(server_device), False) for server_device in cluster.server_devices]
    channels = [tables.exchange_loads(channel) for channel in (("ring", "", False), *servers[::-1])]
    used, found = np.random.default_rng(0).random((2, 3, len(channels) * len(Quantities._fields))), []
    convert = partial(resource_seconds, tables=tables, coefficients=Coefficients()) if converted else None
    for fewest in (2, 10_000):
        monkeypatch.setattr(matrices, "FEWEST_FOLDED", fewest)
        made = matrices.Matrices.of(channels, tables.alike, tables.columns)
        assert bool(made.folded) == (fewest == 2)
        found.append([made.times(used[..., made.rows], ways, convert) for ways in (("push",), ("push", "back"))])
    for folded, full in zip(*found, strict=True):
        assert folded == pytest.approx(full, rel=1e-12, abs=1e-12 * float(full.max()))


def test_the_loads_of_a_server_are_those_of_its_own_exchange() -> None:
    """For every server, the loads swapped over from the first interchangeable server equal its own exchange's loads."""
    for cluster in CLUSTERS.values():
        replicas = tuple(map(str, cluster.replica_devices))
        tables = cost_tables(cases.bert_like_model(1), cluster, replicas)
        for server in map(str, cluster.server_devices):
            for kind in ("dense_server", "sparse_server", "push", "own_push", "send_back"):
                channel = (kind, server, False)
                direct = Projection(cluster).of(Exchanges(Topology(cluster, replicas), 2).of(channel))
                shared = tables.exchange_loads(channel)
                for way in ("pull", "push", "back"):
                    swapped = shared.on_own_node(way, tables.alike, tables.columns)
                    assert swapped == pytest.approx(getattr(direct, way))
                assert shared.latency_seconds == pytest.approx(direct.latency_seconds)
                assert shared.seconds_a_byte == pytest.approx(direct.seconds_a_byte)


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("what", GATHERED)
def test_a_gather_is_counted_as_message_by_message(name: str, what: str) -> None:
    cluster = CLUSTERS[name]
    replicas = tuple(map(str, cluster.replica_devices))
    topology, channel = Topology(cluster, replicas), (what, "", False)
    exchange, alike = Exchanges(topology, 2).of(channel), NodeClasses(ResourceColumns(cluster), replicas)
    counted = Projection(cluster).of_gather(
        gather_pairs(topology, alike), GATHERED[what], work_of_gather(topology, 2, channel)
    )
    listed = Projection(cluster).of(exchange)
    assert counted.push == pytest.approx(listed.push)
    assert (counted.latency_seconds, counted.seconds_a_byte) == pytest.approx(
        (listed.latency_seconds, listed.seconds_a_byte)
    )


@pytest.mark.parametrize("name", CLUSTERS)
def test_pairs_of_all_are_counted_as_one_by_one(name: str) -> None:
    cluster = CLUSTERS[name]
    replicas = tuple(map(str, cluster.replica_devices))
    maker, like = PartMaker(ResourceColumns(cluster), replicas), GATHERED["gathered_rows"]
    apart = Topology(cluster, replicas).processes.apart
    pairs = [(source, target) for source in replicas for target in replicas if apart(source, target)]
    listed, counted = (
        maker.of_stage(Stage(tuple(replace(like, source=a, target=b) for a, b in pairs))),
        maker.of_everyone(like),
    )
    for kind in range(5):
        of_listed, of_counted = (_spread_out(part, maker)[kind] for part in (listed, counted))
        assert of_listed == pytest.approx(of_counted, rel=1e-12, abs=1e-30)
    assert counted.latency_seconds == listed.latency_seconds
    assert counted.chain[1:] == pytest.approx(listed.chain[1:])


def _spread_out(part: Part, maker: PartMaker) -> np.ndarray:
    """The loads of every place, (kinds, quantities, places)."""
    group = part.pattern.group_of(maker.resources.count)
    return np.where(group == NOTHING, 0.0, part.loads[..., group])


def test_a_pattern_has_the_groups_it_was_made_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "SHORTEST_RUN", 4)
    rng = np.random.default_rng(0)
    for _ in range(200):
        groups = np.repeat(rng.integers(NOTHING, 3, 12), rng.integers(1, 7, 12))
        pattern = Pattern.of(groups, 3)
        assert pattern.group_of(len(groups)).tolist() == groups.tolist()
        assert pattern.without_runs().group_of(len(groups)).tolist() == groups.tolist()
        assert not pattern.without_runs().runs


def test_a_place_of_another_group_is_a_hole_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "SHORTEST_RUN", 4)
    pattern = Pattern.of(np.array([1, 1, 0, 1, 1, NOTHING, 1]), 2)
    assert pattern.runs == (PlaceRun(0, 7, 1, holes=(2, 5)),)
    assert pattern.singles == ((2, 0),)


def test_a_thousand_symmetric_workers_are_replayed_on_as_few_places_as_sixteen() -> None:
    model, found = cases.bert_like_model(1), []
    for nodes in (16, 128):
        cluster = cases.gpu_cluster(nodes, 8)
        step = step_of(model, cluster, all_by(model, cluster, AllReduce(0)))
        found.append(step.fold(step.tasks(ASSUMED)).places)
    assert found[0] == found[1] <= 8


def test_a_thousand_servers_share_loads_and_are_runs_of_places() -> None:
    model, cluster = cases.mlp_model((1024, 4096, 1024)), cases.star_cluster(200)
    step = step_of(model, cluster, BASELINES["partitioned_parameter_server"](model, cluster))
    step.seconds(ASSUMED)
    catalogue = step.catalogue
    assert len(catalogue.parts) > 300
    assert len(set(catalogue.stands_for)) <= 6
    assert max(len(part.pattern.singles) + len(part.pattern.runs) for part in catalogue.parts) < 80


def test_only_exactly_equal_nodes_are_interchangeable() -> None:
    cluster = cases.star_cluster(4)
    first, *others = cluster.nodes
    assert alike(cluster) == [["node0", "node1", "node2", "node3"]]
    assert alike(replace(cluster, nodes=(replace(first, cores=2.1), *others))) == [
        ["node0"],
        ["node1", "node2", "node3"],
    ]
    links = [
        replace(link, latency_us=Figure(51.0, "stated")) if link.target == "node2" else link for link in cluster.links
    ]
    assert alike(replace(cluster, links=tuple(links))) == [["node0", "node1", "node3"], ["node2"]]
    assert alike(cluster, without="node3/cpu:0") == [["node0", "node1", "node2"], ["node3"]]
    straight = Link("node0", "node1", Figure(1.0, "stated"), Figure(1.0, "stated"))
    assert alike(replace(cluster, links=(*cluster.links, straight))) == [["node0"], ["node1"], ["node2", "node3"]]
    assert alike(cases.racks(2, 3)) == [["node0", "node1"], ["node2", "node3", "node4"]]


def alike(cluster: ClusterSpec, without: str = "") -> list[list[str]]:
    replicas = [str(replica_device) for replica_device in cluster.replica_devices]
    return NodeClasses(ResourceColumns(cluster), tuple(replica for replica in replicas if replica != without)).nodes
