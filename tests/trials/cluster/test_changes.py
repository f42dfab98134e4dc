"""Links that change: in a cluster file, in a cluster's identity and words, and in Ray's labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosync.errors import ClusterError, SpecError
from autosync.spec import (
    ClusterSpec,
    Figure,
    LaterRate,
    ParameterServer,
    Strategy,
    VariableStrategy,
    canonical_json,
    canonical_strategy,
    parse_json,
)
from autosync.words.cluster import cluster_lines
from tests.cases import star_cluster
from tests.trials.cluster.test_cluster_file import rates, read
from trials.cluster.discovery import cluster_from_ray_nodes, match_cluster
from trials.cluster.node_matching import alike, part_of
from trials.cluster.ray_labels import Later, start_options
from trials.emulate.wiring import Wiring

STAYS = """
link: 100mbit
racks: {left: {up: 400mbit, down: 300mbit}, right: {}}
nodes: [{rack: left, count: 2}, {name: b, rack: right}]
"""

CHANGES = f"""{STAYS}
changes:
  - {{after: 60s, link: 1gbit, nodes: {{node1: {{up: 50mbit}}}}}}
  - {{after: 90.5s, racks: {{left: {{up: 10mbit}}, right: {{down: 20mbit}}}}}}
"""


def later(cluster: ClusterSpec) -> dict[str, list[tuple[float, float]]]:
    """Return, by link, the times of its changes and the rates from then on."""
    return {
        f"{link.source}>{link.target}": [(rate.after_seconds, rate.gbit_per_s.value) for rate in link.later]
        for link in cluster.links
        if link.later
    }


def test_a_file_states_rates_later_and_what_a_change_does_not_say_stays(tmp_path: Path) -> None:
    cluster = read(tmp_path, CHANGES)
    assert later(cluster) == {
        **{ends: [(60.0, 1.0)] for ends in ("node0>left", "left>node0", "left>node1", "b>right", "right>b")},
        "node1>left": [(60.0, 0.05)],
        "left>core": [(90.5, 0.01)],
        "core>right": [(90.5, 0.02)],
    }
    assert cluster.changes
    assert cluster.phase_starts == (0.0, 60.0, 90.5)
    assert rates(cluster) == rates(read(tmp_path, STAYS)) == rates(cluster.at(59.9))
    assert rates(cluster.at(60)) | {"left>core": 0, "core>right": 0} == rates(cluster.at(90.5)) | {
        "left>core": 0,
        "core>right": 0,
    }
    assert rates(cluster.at(90.5))["left>core"] == (0.01, "stated")
    assert rates(cluster.at(90.5))["node1>left"] == (0.05, "stated")
    assert rates(cluster.at(90.5))["core>left"] == (0.3, "stated")


def test_a_cluster_whose_links_change_is_another_and_one_that_stays_says_nothing_of_it(tmp_path: Path) -> None:
    stays, changes = read(tmp_path, STAYS), read(tmp_path, CHANGES)
    sooner = read(tmp_path, CHANGES.replace("90.5s", "80s"))
    assert len({stays.digest, changes.digest, sooner.digest}) == 3
    assert "later" not in canonical_json(stays.to_json())
    assert ClusterSpec.from_json(parse_json(canonical_json(changes.to_json()), "A cluster")) == changes
    assert "other changes of links" in alike(stays, changes)
    assert alike(changes, changes) == ""
    assert part_of(with_addresses(changes), ["10.77.0.1", "10.77.0.2"]).phase_starts == (0.0, 60.0)


def test_the_digest_of_a_cluster_that_stays_is_what_it_was() -> None:
    assert star_cluster(2).digest == DIGEST


DIGEST = "617a2cbe6928f72e"


def test_nodes_whose_links_change_otherwise_are_not_exchanged() -> None:
    cluster = star_cluster(2)
    served = Strategy(
        tuple(map(str, cluster.server_devices)),
        (VariableStrategy("v", (ParameterServer(str(cluster.server_devices[1])),)),),
    )
    assert canonical_strategy(served, cluster) != served
    slower = LaterRate(5.0, Figure(1e-3, "stated"))
    links = tuple(replace(link, later=(slower,)) if link.source == "node1" else link for link in cluster.links)
    assert canonical_strategy(served, replace(cluster, links=links)) == served


def test_changes_are_said_in_words(tmp_path: Path) -> None:
    lines = [line for line in cluster_lines(read(tmp_path, CHANGES)) if line.startswith("From ")]
    assert lines == [
        "From 60 s on: node0 -> left, left -> node0, left -> node1, b -> right and 1 more at 1, "
        "node1 -> left at 0.05 Gbit/s",
        "From 90.5 s on: left -> core at 0.01, core -> right at 0.02 Gbit/s",
    ]


REFUSED = {
    "[{after: 60, link: 1gbit}]": r"changes\[0\]\.after: a time is written like 20ms or 1\.5s, not 60\.",
    "[{after: 0s, link: 1gbit}]": r"changes\[0\]\.after: must be greater than 0, not 0\.",
    f"[{{after: {'9' * 60}s, link: 1gbit}}]": r"changes\[0\]\.after: must be less than or equal to 1000000000, not 1e",
    "[{link: 1gbit}]": r"changes\[0\]\.after: this key is needed; add it\.",
    "[{after: 1s}]": r"changes\[0\]: a change needs rates, by `link`, `nodes` or `racks`; add one of them\.",
    "[{after: 2s, link: 1gbit}, {after: 2s, link: 2gbit}]": r"changes\[1\]\.after: changes come in order of time, each "
    r"after the one before, but 2 s is not after 2 s\.",
    "[{after: 1s, nodes: {c: {up: 1gbit}}}]": r"changes\[0\]\.nodes: a node whose link changes is one with a link "
    r"\(there are node0, node1, b\), not 'c'\.",
    "[{after: 1s, racks: {core: {up: 1gbit}}}]": r"changes\[0\]\.racks: .* \(there are left, right\), not 'core'\.",
    "[{after: 1s, nodes: {b: {}}}]": r"changes\[0\]\.nodes\.b: a link that changes needs a new rate `up`, `down`",
    "[{after: 1s, nodes: {b: {up: 0mbit}}}]": r"changes\[0\]\.nodes\.b\.up: A rate is written .* zero, not '0mbit'\.",
    "[{after: 1s, nodes: {b: {rate: 1gbit}}}]": r"changes\[0\]\.nodes\.b\.rate: there is no such key in .*; known are ",
    f"[{', '.join(f'{{after: {time}s, link: 1gbit}}' for time in range(1, 102))}]": "changes: there are at most 100",
}


@pytest.mark.parametrize("changes", REFUSED, ids=lambda text: text[:40])
def test_a_fault_is_one_sentence(changes: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=REFUSED[changes]) as caught:
        read(tmp_path, f"{STAYS}\nchanges: {changes}\n")
    assert "\n" not in str(caught.value)


def test_a_node_without_a_link_cannot_change(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="changes: a single node has no link to change; add nodes, or omit"):
        read(tmp_path, "nodes: [{}]\nchanges: [{after: 1s, link: 1gbit}]")
    one_rack = "racks: {a: {}}\nnodes: [{rack: a, count: 2}]\nchanges: [{after: 1s, racks: {a: {up: 1gbit}}}]"
    with pytest.raises(ClusterError, match=r"a rack whose link changes is one with a link \(there are none\), not 'a'"):
        read(tmp_path, one_rack)


def test_a_link_changes_at_times_that_increase() -> None:
    link = star_cluster(2).links[-1]
    rate = Figure(1.0, "stated")
    for times in ((), (0.0,), (2.0, 1.0), (1.0, 1.0), (float("inf"),), (float("nan"),)):
        with pytest.raises(SpecError, match="A link changes after times above zero that increase"):
            replace(link, later=tuple(LaterRate(time, rate) for time in times))
    with pytest.raises(SpecError, match="A link changes at most 100 times, not 101"):
        replace(link, later=tuple(LaterRate(float(time), rate) for time in range(1, 102)))


def with_addresses(cluster: ClusterSpec) -> ClusterSpec:
    return Wiring("test", cluster).with_addresses


def ray_nodes(cluster: ClusterSpec) -> list[dict[str, Any]]:
    """Return the answer of `ray.nodes()` on the emulated `cluster`."""
    wiring, seen = Wiring("test", cluster), []
    for node in wiring.with_addresses.nodes:
        rack = wiring.switch_of(node.name)
        assert rack is not None
        later: Later = wiring.later_of(node.name, rack)
        options = dict(option.removeprefix("--").split("=", 1) for option in start_options(node, rack, later))
        labels = dict(label.split("=") for label in options["labels"].split(","))
        assert all(len(value) < 64 for value in labels.values())
        seen.append({"Alive": True, "NodeManagerAddress": node.address, "Resources": {"CPU": 4.0}, "Labels": labels})
    return seen


def test_ray_is_told_of_changes_and_tells_of_them_again(tmp_path: Path) -> None:
    changes = read(tmp_path, CHANGES)
    discovered = cluster_from_ray_nodes(ray_nodes(changes))
    assert later(discovered) == {ends.replace("b", "node2"): rates for ends, rates in later(changes).items()}
    assert not cluster_from_ray_nodes(ray_nodes(read(tmp_path, STAYS))).changes


def test_a_cluster_file_with_changes_is_for_emulated_clusters(tmp_path: Path) -> None:
    stays, changes = (with_addresses(read(tmp_path, text)) for text in (STAYS, CHANGES))
    assert match_cluster(changes, ray_nodes(changes)).phase_starts == (0.0, 60.0, 90.5)
    with pytest.raises(
        ClusterError, match="states `changes`, which only an emulated cluster carries out; give the file to"
    ):
        match_cluster(changes, ray_nodes(stays))
