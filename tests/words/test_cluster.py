"""A cluster of any size is described in a few lines."""

from __future__ import annotations

from dataclasses import replace

from autosync.spec import ClusterSpec, Figure, KeptPace, Pace, Slow, Spread
from autosync.words.cluster import cluster_lines, kept_in_words, route_lines
from tests import cases


def measured(cluster: ClusterSpec, rates: dict[str, float]) -> ClusterSpec:
    """`cluster` with measured links; links from a source in `rates` have that rate."""
    links = tuple(
        replace(
            link,
            gbit_per_s=Figure(rates.get(link.source, 0.19), "measured"),
            latency_us=Figure(100.0 + index, "measured"),
        )
        for index, link in enumerate(cluster.links)
    )
    return replace(cluster, links=links)


def test_one_machine_takes_two_lines() -> None:
    assert list(cluster_lines(cases.local_cluster())) == [
        "Node node0 at 127.0.0.1: 4 workers, 4 cores",
        "Within node0: 40 Gbit/s (stated), 20 us (stated)",
    ]


def test_nodes_and_links_that_are_alike_share_a_line() -> None:
    assert list(cluster_lines(cases.gpu_cluster(4))) == [
        "4 nodes node0..node3 at 10.0.0.1..10.0.0.4: 1 worker, 16 cores, 4 GPUs each",
        "Links of node0..node3 to switch: 25 Gbit/s (stated), 50 us (stated), both ways",
        "Within each of node0..node3: 40 Gbit/s (stated), 20 us (stated)",
    ]


def test_nodes_and_links_that_differ_have_separate_lines() -> None:
    assert list(cluster_lines(cases.uneven_cluster())) == [
        "Node node0 at 10.0.0.1: 2 workers, 8 cores",
        "3 nodes node1..node3 at 10.0.0.2..10.0.0.4: 1 worker, 2 cores each",
        "Links of node0..node2 to switch: 1 Gbit/s (stated), 50 us (stated), both ways",
        "Link of node3 to switch: 0.1 Gbit/s (stated), 50 us (stated), both ways",
        "Within each of node0..node3: 40 Gbit/s (stated), 20 us (stated)",
    ]


def test_measured_links_are_alike_when_two_digits_are() -> None:
    lines = list(cluster_lines(measured(cases.star_cluster(3), {"node0": 0.1931, "node1": 0.1887, "node2": 0.0962})))
    assert lines[1:3] == [
        "Links of node0, node1 to switch: "
        "up 0.19 Gbit/s (measured), 103 to 105 us (measured); down 0.19 Gbit/s (measured), 104 to 106 us (measured)",
        "Link of node2 to switch: up 0.096 Gbit/s (measured), 107 us (measured); "
        "down 0.19 Gbit/s (measured), 108 us (measured)",
    ]


def test_64_nodes_take_three_lines_and_their_routes_one() -> None:
    cluster = cases.star_cluster(64)
    assert next(cluster_lines(cluster)).startswith("64 nodes node0..node63 at 10.0.0.1..10.0.0.64: 1 worker")
    assert len(list(cluster_lines(cluster))) == 3
    assert list(route_lines(cluster)) == ["Routes between node0..node63 over switch: 0.2 Gbit/s (stated), 100 us"]


def test_links_between_switches_are_told_each_way() -> None:
    lines = list(cluster_lines(cases.rack_cluster()))
    assert "Links of node2, node3 to rack1: 10 Gbit/s (stated), 10 us (stated), both ways" in lines
    assert "Link of rack0 to rack1: 5 Gbit/s (stated), 30 us (stated), both ways" in lines
    assert list(route_lines(cases.rack_cluster()))[:2] == [
        "Routes between node0, node1 over rack0: 10 Gbit/s (stated), 20 us",
        "Routes from node0, node1 to node2, node3 over rack0, rack1: 5 Gbit/s (stated), 50 us",
    ]


def test_a_link_without_a_way_back_is_told_alone() -> None:
    cluster = cases.star_cluster(2)
    only = replace(cluster.links[0], source="node0", target="node1")
    lines = list(cluster_lines(replace(cluster, links=(*cluster.links, only))))
    assert "Link node0 -> node1: 40 Gbit/s (stated), 20 us (stated)" in lines


def test_a_fast_link_is_written_without_an_exponent() -> None:
    fast = measured(cases.local_cluster(), {"node0": 104.0})
    assert list(cluster_lines(fast))[-1] == "Within node0: 100 Gbit/s (measured), 100 us (measured)"


def test_the_first_four_of_many_unordered_names_are_listed() -> None:
    cluster = cases.star_cluster(6)
    nodes = tuple(replace(node, address=f"10.0.{7 * index}.1") for index, node in enumerate(cluster.nodes))
    line = next(cluster_lines(replace(cluster, nodes=nodes)))
    assert line.startswith("6 nodes node0..node5 at 10.0.0.1, 10.0.7.1, 10.0.14.1, 10.0.21.1 and 2 more: ")


def test_the_pace_of_nodes_is_described() -> None:
    pace = Pace(5.0, 0.02, spread=Spread(0.1, Slow(0.25, 50, 3.0, "left"), (1.0, 2.0)), batch_seconds=0.03)
    plain = cases.star_cluster(2)
    cluster = replace(plain, nodes=tuple(replace(node, pace=pace) for node in plain.nodes))
    assert next(cluster_lines(cluster)).endswith(
        "1 worker, 2 cores, paced passes of 20 ms + 30 ms a batch + 5 x the profile (recorded numbers), jitter 0.1, "
        "25 % of steps 3 x as long for 50 steps, all of left together, a trace of 2 factors each"
    )


def test_kept_paces_are_described_by_the_worst_replica() -> None:
    kept = KeptPace("paced", "recorded", 2, (0.15, 0.15), (0.151, 0.153), (1e-4, 3e-4), (2e-3, 1e-3))
    assert kept_in_words(kept) == (
        "Paced: passes of 150.0 ms took 152.0 ms; at the worst replica half of all releases were up to 0.30 ms late, "
        "99 % up to 2.00 ms; numbers recorded of 2 real steps"
    )
