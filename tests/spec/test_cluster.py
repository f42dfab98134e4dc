"""The cluster noun: refused values, routes, devices and digest."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from autosync.errors import SpecError
from autosync.spec import ClusterSpec, Device, Figure, Link, Node, SharedCores, canonical_json, parse_json
from tests import cases

CLUSTERS = [
    cases.local_cluster(),
    cases.star_cluster(),
    cases.uneven_cluster(),
    cases.rack_cluster(),
    cases.gpu_cluster(),
]
ONE = Figure(1.0, "stated")


@pytest.mark.parametrize("cluster", CLUSTERS, ids=["local", "star", "uneven", "racks", "gpus"])
def test_a_cluster_comes_back_from_json_as_it_was(cluster: ClusterSpec):
    again = ClusterSpec.from_json(parse_json(canonical_json(cluster.to_json()), "The cluster"))
    assert again == cluster
    assert again.digest == cluster.digest


def test_measured_figures_of_a_host_are_in_json_but_not_in_the_digest():
    plain = cases.star_cluster()
    known = replace(plain.nodes[0], copy_gbit_per_s=Figure(90.0, "measured"), message_us=Figure(50.0, "measured"))
    cluster = replace(plain, nodes=(known, *plain.nodes[1:]))
    again = ClusterSpec.from_json(parse_json(canonical_json(cluster.to_json()), "The cluster"))
    assert again == cluster
    assert cluster.digest == plain.digest


def test_a_host_without_measured_figures_has_no_such_fields_in_json():
    document = cases.star_cluster().nodes[0].to_json()
    assert sorted(document) == ["address", "cores", "gpus", "name", "workers"]
    assert Node.from_json(document).copy_gbit_per_s is None


def test_cores_that_nodes_share_are_part_of_what_a_cluster_is():
    cluster = cases.star_cluster()
    shared = tuple(replace(node, shared_cores=SharedCores("one", 2)) for node in cluster.nodes)
    playing = replace(cluster, nodes=shared)
    assert ClusterSpec.from_json(parse_json(canonical_json(playing.to_json()), "The cluster")).nodes == shared
    assert playing.digest != cluster.digest


@pytest.mark.parametrize(("machine", "count"), [("", 2.0), ("one", 0.0), ("one", math.inf)])
def test_shared_cores_need_a_machine_and_a_number(machine: str, count: float):
    with pytest.raises(SpecError, match=re.escape(f"not {count!r} of {machine!r}.")):
        SharedCores(machine, count)


def test_a_cluster_given_whole_numbers_keeps_its_digest_through_json():
    cluster = ClusterSpec.star((Node("a", "10.0.0.1", 4), Node("b", "10.0.0.2", 4)), *[Figure(2, "stated")] * 4)
    assert ClusterSpec.from_json(parse_json(canonical_json(cluster.to_json()), "The cluster")).digest == cluster.digest


def test_addresses_latencies_and_noise_do_not_change_the_digest():
    cluster = cases.star_cluster(gbit_per_s=1.0)
    moved = replace(cluster, nodes=tuple(replace(node, address="192.0.2.1") for node in cluster.nodes))
    noisy = replace(
        cluster,
        links=tuple(
            Link(link.source, link.target, Figure(link.gbit_per_s.value * 1.05, "measured"), Figure(9.0, "measured"))
            for link in reversed(cluster.links)
        ),
    )
    assert moved.digest == noisy.digest == cluster.digest


def test_rates_cores_and_workers_change_the_digest():
    clusters = [
        cases.star_cluster(gbit_per_s=1.0),
        cases.star_cluster(gbit_per_s=2.0),
        cases.star_cluster(gbit_per_s=1.0, workers=2),
        cases.star_cluster(nodes=3, gbit_per_s=1.0),
    ]
    assert len({cluster.digest for cluster in clusters}) == 4


def test_replicas_run_on_gpus_where_there_are_some_and_servers_always_on_cpus():
    cluster = cases.gpu_cluster(nodes=1, gpus=2)
    assert [str(device) for device in cluster.replica_devices] == ["node0/gpu:0", "node0/gpu:1"]
    assert [str(device) for device in cluster.server_devices] == ["node0/cpu:0"]
    workers = cases.local_cluster(2)
    assert workers.replica_devices == workers.server_devices == (Device("node0", "cpu", 0), Device("node0", "cpu", 1))


def test_a_route_crosses_switches_and_stays_inside_a_node():
    cluster = cases.rack_cluster()
    assert [link.target for link in cluster.route("node0", "node3")] == ["rack0", "rack1", "node3"]
    assert [link.target for link in cluster.route("node0", "node0")] == ["node0"]


def test_a_route_never_crosses_another_node():
    nodes = tuple(Node(name, "10.0.0.1", 1.0) for name in "abc")
    links = [Link(x, x, ONE, ONE) for x in "abc"] + [Link(x, y, ONE, ONE) for x, y in ("ab", "ba", "bc", "cb")]
    with pytest.raises(SpecError, match=re.escape("No route leads from 'a' to 'c'; add the missing links.")):
        ClusterSpec(nodes, tuple(links))


def test_a_link_says_its_rate_and_latency_in_bytes_and_seconds():
    link = Link("a", "b", Figure(8.0, "stated"), Figure(50.0, "stated"))
    assert link.bytes_per_second == 1e9
    assert math.isclose(link.latency_seconds, 5e-5)


def test_the_latency_of_a_star_is_halved_over_its_two_links():
    route = cases.star_cluster().route("node0", "node1")
    assert [link.latency_us.value for link in route] == [50.0, 50.0]


@pytest.mark.parametrize("text", ["node0/cpu:0", "rack/a/gpu:12"])
def test_a_device_is_parsed_from_its_own_text(text: str):
    assert str(Device.parse(text)) == text


@pytest.mark.parametrize("text", ["", "cpu:0", "node0/cpu", "node0/tpu:0", "node0/cpu:x", "/cpu:0"])
def test_an_invalid_device_is_refused(text: str):
    message = f"A device is named like 'node0/cpu:0' or 'node0/gpu:3', not {text!r}."
    with pytest.raises(SpecError, match=re.escape(message)):
        Device.parse(text)


@pytest.mark.parametrize(
    ("value", "source", "message"),
    [
        (1.0, "guessed", "A figure is measured, stated, assumed; 'guessed' is none of them."),
        (0.0, "stated", "A figure must be a positive number, not 0.0."),
        (math.nan, "stated", "A figure must be a positive number, not nan."),
        (math.inf, "measured", "A figure must be a positive number, not inf."),
    ],
)
def test_a_figure_is_positive_and_says_where_it_comes_from(value: float, source: str, message: str):
    with pytest.raises(SpecError, match=re.escape(message)):
        Figure(value, source)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("n", "a", 0.0), "Node 'n' needs a worker and a positive number of cores."),
        (("n", "a", 1e-320), "Node 'n' has 0.001 to 1e+06 cores, not 9.99989e-321."),
        (("n", "a", 1e300), "Node 'n' has 0.001 to 1e+06 cores, not 1e+300."),
        (("n", "a", math.inf), "Node 'n' needs a worker and a positive number of cores."),
        (("n", "a", 1.0, 0), "Node 'n' needs a worker and a positive number of cores."),
        (
            ("n", "a", 1.0, 2, 1),
            "Node 'n' has GPUs, so one worker process drives them all; workers must be 1.",
        ),
        (("", "a", 1.0), "A node's name must not be empty or hold a slash, but is ''."),
        (("x/y", "a", 1.0), "A node's name must not be empty or hold a slash, but is 'x/y'."),
    ],
)
def test_a_node_that_breaks_a_rule_is_refused(arguments: tuple[Any, ...], message: str):
    with pytest.raises(SpecError, match=re.escape(message)):
        Node(*arguments)


@pytest.mark.parametrize("workers", [2049, 10**9, 10**60])
def test_a_node_of_more_workers_than_can_be_reckoned_with_is_refused(workers: int):
    with pytest.raises(SpecError, match=f"Node 'n' has at most 2048 workers and as many GPUs, not {workers} and 0"):
        Node("n", "", 1.0, workers)
    with pytest.raises(SpecError, match="at most 2048 workers and as many GPUs"):
        Node("n", "", 1.0, 1, workers)


def test_a_cluster_larger_than_can_be_reckoned_with_is_refused_at_once():
    node, big = Node("n", "", 1.0), Node("n", "", 1.0, 1100)
    link = Link("n", "n", ONE, ONE)
    for arguments, sentence in (
        (((node,) * 1025, ()), "A cluster has at most 1024 nodes, not 1025; state a smaller one."),
        (((node,), (), ("s",) * 1025), "A cluster has at most 1024 switches, not 1025; state a smaller one."),
        (((node,), (link,) * 16_385), "A cluster has at most 16384 links, not 16385; state a smaller one."),
        (((big, big), ()), "A cluster has at most 2048 workers and GPUs, not 2200; state a smaller one."),
    ):
        with pytest.raises(SpecError, match=re.escape(sentence)):
            ClusterSpec(*arguments)


def test_a_route_over_many_switches_is_not_followed():
    def chain(switches: int) -> ClusterSpec:
        names = tuple(f"s{index}" for index in range(switches))
        path = ("a", *names, "b")
        there = [Link(source, target, ONE, ONE) for source, target in pairwise(path)]
        back = [Link(link.target, link.source, ONE, ONE) for link in there]
        loops = [Link(name, name, ONE, ONE) for name in "ab"]
        return ClusterSpec((Node("a", "", 1.0), Node("b", "", 1.0)), (*there, *back, *loops), names)

    assert len(chain(15).route("a", "b")) == 16
    with pytest.raises(SpecError, match=r"No route leads from 'a' to 'b'; .* A route crosses at most 16\."):
        chain(16)


@pytest.mark.parametrize("value", [1e-300, 5e-324, 1e13, 1e308])
def test_a_figure_by_which_times_would_overflow_is_refused(value: float):
    with pytest.raises(SpecError, match=re.escape(f"A figure is from 1e-12 to 1e+12, not {value:g}.")):
        Figure(value, "stated")


@pytest.mark.parametrize("index", ["9" * 5000, "9" * 10])
def test_a_device_of_an_index_of_many_digits_is_refused(index: str):
    with pytest.raises(SpecError, match="A device is named like") as caught:
        Device.parse(f"node0/cpu:{index}")
    assert len(str(caught.value)) < 200


def test_a_refusal_of_long_names_quotes_one_line():
    long = "x" * 10_000_000
    for build in (
        lambda: Node(long, "", 1.0),
        lambda: Node("n", long, 1.0),
        lambda: Node(long, "", 0.0),
        lambda: Figure(1.0, long),
        lambda: Device.parse(long),
        lambda: ClusterSpec((Node("a", "", 1.0),), (Link("a", long, ONE, ONE),)),
        lambda: ClusterSpec((Node("a", "", 1.0),), (), (long,)),
        lambda: ClusterSpec.from_json({"nodes": [], "links": [], "switches": [], long: 1}),
        lambda: ClusterSpec.from_json({"nodes": [], "links": [], "switches": [[long]]}),
        lambda: cases.gpu_cluster().node(long),
    ):
        with pytest.raises(SpecError) as caught:
            build()
        assert len(str(caught.value)) < 400


def test_a_cluster_needs_nodes_with_different_names():
    with pytest.raises(SpecError, match="A cluster needs at least one node; none was given"):
        ClusterSpec((), ())
    node = Node("a", "10.0.0.1", 1.0)
    with pytest.raises(SpecError, match="Nodes and switches need different names; given: a, a"):
        ClusterSpec((node,), (), ("a",))


def test_a_link_ends_at_a_node_or_switch():
    with pytest.raises(SpecError, match=re.escape("A link ends at 'b', which is no node or switch. Known: a.")):
        ClusterSpec((Node("a", "10.0.0.1", 1.0),), (Link("a", "b", ONE, ONE),))


def test_a_node_without_loopback_has_no_route_to_itself():
    with pytest.raises(SpecError, match="No route leads from 'a' to 'a'; add the missing links"):
        ClusterSpec((Node("a", "10.0.0.1", 1.0),), ())


def test_an_unknown_node_is_answered_with_those_there_are():
    with pytest.raises(SpecError, match=re.escape("The cluster has no node 'x'. Nodes: node0, node1.")):
        cases.gpu_cluster().node("x")
