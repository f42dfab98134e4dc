"""Valid and invalid cluster files."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from autosync.errors import ClusterError
from autosync.spec import ClusterSpec, Figure, Pace, Slow, Spread
from trials.cluster.file import read_cluster_file
from trials.emulate.wiring import Wiring

TOPOLOGIES = sorted((Path(__file__).parents[3] / "topologies").glob("*.yaml"))

EVERYTHING = """
link: 1gbit
racks:
  left: {up: 400mbit, down: 300mbit, latency: 0.2ms}
  right: {up: 2.5gbit}
nodes:
  - {name: head, address: 10.0.0.1, cores: 8, gpus: 4, rack: left, down: 200mbit, latency: 50us}
  - {name: mate, count: 2, cores: 1.5, workers: 2, rack: right, up: 100mbit}
  - {rack: left}
  - {}
"""


def read(folder: Path, text: str) -> ClusterSpec:
    file = folder / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    return read_cluster_file(file)


def rates(cluster: ClusterSpec) -> dict[str, tuple[float, str]]:
    return {f"{link.source}>{link.target}": (link.gbit_per_s.value, link.gbit_per_s.source) for link in cluster.links}


def test_all_that_a_file_can_state_is_read(tmp_path: Path) -> None:
    cluster = read(tmp_path, EVERYTHING)
    assert [(node.name, node.address, node.gpus, node.workers) for node in cluster.nodes] == [
        ("head", "10.0.0.1", 4, 1),
        ("mate0", "", 0, 2),
        ("mate1", "", 0, 2),
        ("node3", "", 0, 1),
        ("node4", "", 0, 1),
    ]
    assert [node.cores for node in cluster.nodes] == [8.0, 1.5, 1.5, os.cpu_count(), os.cpu_count()]
    assert cluster.switches == ("left", "right", "core")
    rates_by_link = rates(cluster)
    assert rates_by_link["head>left"] == (1.0, "stated")
    assert rates_by_link["left>head"] == (0.2, "stated")
    assert rates_by_link["mate1>right"] == (0.1, "stated")
    assert (rates_by_link["left>core"], rates_by_link["core>left"]) == ((0.4, "stated"), (0.3, "stated"))
    assert rates_by_link["right>core"] == (2.5, "stated")
    assert rates_by_link["core>right"][1] == "assumed"
    assert (rates_by_link["node4>core"], rates_by_link["core>node4"]) == ((1.0, "stated"), (1.0, "stated"))
    assert rates_by_link["head>head"][1] == "assumed"
    latencies = {f"{link.source}>{link.target}": link.latency_us for link in cluster.links}
    assert latencies["head>left"] == latencies["left>head"] == Figure(50.0, "stated")
    assert latencies["left>core"] == Figure(200.0, "stated")
    assert latencies["node3>left"].source == "assumed"


def test_a_rate_that_is_not_given_is_assumed_and_so_not_shaped(tmp_path: Path) -> None:
    cluster = read(tmp_path, "nodes: [{count: 2, up: 10mbit}]")
    assert rates(cluster)["node0>switch"] == (0.01, "stated")
    assert rates(cluster)["switch>node0"][1] == "assumed"
    first = Wiring("test", cluster).node_pair(0)
    assert first is not None
    assert (first.a.gbit_per_s, first.b.gbit_per_s) == (0.01, None)


def test_without_racks_all_nodes_hang_on_one_switch_as_in_a_star(tmp_path: Path) -> None:
    cluster = read(tmp_path, "{link: 200mbit, nodes: [{count: 3}]}")
    star = ClusterSpec.star(
        cluster.nodes,
        link_gbit_per_s=Figure(0.2, "stated"),
        link_latency_us=Figure(200.0, "assumed"),
        host_gbit_per_s=cluster.links[0].gbit_per_s,
        host_latency_us=cluster.links[0].latency_us,
    )
    assert cluster == star


def test_a_single_node_has_a_loopback_only(tmp_path: Path) -> None:
    cluster = read(tmp_path, "{link: 1gbit, nodes: [{workers: 4}]}")
    assert [(link.source, link.target) for link in cluster.links] == [("node0", "node0")]


def test_a_single_rack_with_all_nodes_needs_no_core(tmp_path: Path) -> None:
    assert read(tmp_path, "{racks: {only: {}}, nodes: [{count: 2, rack: only}]}").switches == ("only",)


RACKS = {"two_racks": 2, "slow_two_racks": 2, "unlike_racks": 2, "three_racks": 3, "four_racks": 4}
NODES = {"asymmetric_five": 5, "slow_fifth_node": 5, "unlike_racks": 5, "three_racks": 6, "four_racks": 8}


@pytest.mark.parametrize("file", TOPOLOGIES, ids=lambda file: file.stem)
def test_every_topology_that_comes_along_can_be_wired_and_is_paced_if_it_says_so(file: Path) -> None:
    cluster, shape = read_cluster_file(file), file.stem.removeprefix("paced_")
    nodes = NODES.get(shape, 4)
    assert [node.name for node in cluster.nodes] == [f"node{number}" for number in range(nodes)]
    assert len(Wiring("test", cluster).veth_pairs) == nodes + RACKS.get(shape, 0)
    assert cluster.paced == (shape != file.stem)


def test_the_topologies_that_come_along_differ() -> None:
    clusters = [read_cluster_file(file) for file in TOPOLOGIES]
    assert len({cluster.digest for cluster in clusters}) == len(clusters) == 25


WRONG = {
    "link: fast\nnodes: [{}]": "link: A rate is written like 200mbit or 1.5gbit, in small letters and above zero, not",
    "link: 100\nnodes: [{}]": "link: A rate is written like .* not '100'",
    "nodes: [{}, {down: 0mbit}]": r"nodes\[1\]\.down: A rate is written .* not '0mbit'",
    "nodes: [{latency: 50}]": r"nodes\[0\]\.latency: a latency is written like 50us or 0\.2ms and is .* zero, not 50\.",
    "nodes: [{count: 2, upp: 1gbit}]": r"nodes\[0\]\.upp: there is no such key in nodes\[0\]; known are name, count,",
    "nodes: [{}]\nlinks: 1gbit": r"links: there is no such key; known are link, pace, racks, nodes, changes\.",
    "nodes: [{rack: a}]\nracks: {a: {left: 1gbit}}": r"racks\.a\.left: .* racks\.a; known are up, down, latency, pace",
    "link: 1gbit": "nodes: this key is needed; add it",
    "nodes: []": r"nodes: must have at least 1 item .*, not \[\]",
    "nodes: [{cores: 0}]": r"nodes\[0\]\.cores: must be greater than 0, not 0\.",
    "nodes: [{cores: .inf}]": r"nodes\[0\]\.cores: must be a finite number, not .inf",
    "nodes: [{gpus: yes}]": r"nodes\[0\]\.gpus: must be a valid integer, not yes",
    "nodes: [{count: 0}]": r"nodes\[0\]\.count: must be greater than or equal to 1, not 0",
    "nodes: [{name: a/b}]": r"nodes\[0\]\.name: a name is of letters, digits and inner dots and dashes, .* not 'a/b'",
    "nodes: [{address: head}]": r"nodes\[0\]\.address: an address is the IP address Ray knows the node by, not 'head'",
    "nodes: [{count: 2, address: 10.0.0.1}]": r"nodes\[0\]\.address: an address is one node's, but `count` is 2",
    "nodes: [{address: 10.0.0.1}, {address: 10.0.0.1}]": "every node has its own address, but 2 have '10.0.0.1'",
    "nodes: [{name: node1}, {}]": "every node has its own name, but 2 have 'node1'",
    "nodes: [{rack: rigth}]\nracks: {right: {}}": r"nodes\[0\]\.rack: .* \(there are right\), not 'rigth'",
    "nodes: [{rack: a}]": r"a rack is one of `racks` \(there are none\), not 'a'",
    "nodes: [{}]\nracks: {a: {}}": r"racks\.a: every rack has a node, but no node says `rack: a`",
    "nodes: [{rack: core}]\nracks: {core: {}}": r"racks\.core: the switch that joins the racks is called 'core'",
    "nodes: [{name: a, rack: a}, {rack: a}]\nracks: {a: {}}": "Nodes and switches need different names; given: a, node",
    "nodes: [{gpus: 2, workers: 2}]": "one worker process drives them all; workers must be 1",
    "nodes: [{}]\nlink: 1gbit\nlink: 2gbit": ", line 3: key 'link' comes twice; keep one",
    "nodes: [{workers: 1000000000}]": r"nodes\[0\]\.workers: must be less than or equal to 2048, not 1000000000\.",
    "nodes: [{gpus: 1000000000}]": r"nodes\[0\]\.gpus: must be less than or equal to 2048, not 1000000000\.",
    "nodes: [{count: 1000000000}]": r"nodes\[0\]\.count: must be less than or equal to 1024, not 1000000000\.",
    "nodes: [{count: 600}, {count: 425}]": "nodes: a cluster has at most 1024 nodes, not 1025; state a smaller one",
    "nodes: [{workers: 1100}, {workers: 1100}]": "A cluster has at most 2048 workers and GPUs, not 2200",
    f"link: {'9' * 400}gbit\nnodes: [{{}}]": r"link: must be a finite number, not inf\.",
    f"link: {'x' * 900_000}\nnodes: [{{}}]": r"link: A rate is written like .*, not 'x{76}\.\.\.\.$",
    f"nodes: [{{}}]\n? {'k' * 900_000}\n: 1": r", k{77}\.\.\.: there is no such key; known are",
    f"nodes: [{{name: {'n' * 900_000}}}]": r"at most 63, not 'n{76}\.\.\.\.$",
    "nodes: " + "[" * 100_000: "at most 64 nested values are allowed",
    "nodes: &a [*a]": "anchors and aliases are not read",
    "nodes: [{<<: {gpus: 1}}]": "merge keys are not read",
    f"nodes: [{{cores: {'9' * 100_000}}}]": "a number has at most 64 digits",
    "nodes: [" + "{}," * 200_000 + "]": "at most 100000 values",
    "nodes: [{}": "must be YAML, but: while parsing",
    "- a": r"must hold keys with values, not \['a'\]",
    "": "must hold keys with values, not None",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:40])
def test_a_fault_is_reported_with_file_key_rule_and_value(text: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=WRONG[text]) as caught:
        read(tmp_path, text)
    told = str(caught.value)
    assert told.startswith(f"Cluster file '{tmp_path / 'cluster.yaml'}'")
    assert "\n" not in told
    assert len(told) < 400 + len(str(tmp_path))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"Cluster file '.*nosuch.yaml' cannot be read: No such file or directory\."):
        read_cluster_file(tmp_path / "nosuch.yaml")


PACED = """
pace: {scale: 2}
racks:
  left: {pace: {fixed: 100ms, spread: {slow: {probability: 0.1, dwell: 20, factor: 4}}}}
  right: {}
nodes:
  - {count: 2, rack: left}
  - {rack: left, pace: {scale: 3, spread: {slow: {probability: 0.1, dwell: 20, factor: 4}}}}
  - {rack: right}
"""


def test_a_pace_is_a_nodes_own_or_its_racks_or_the_files(tmp_path: Path) -> None:
    together, alone = (Spread(slow=Slow(0.1, 20, 4.0, name)) for name in ("left", ""))
    assert [node.pace for node in read(tmp_path, PACED).nodes] == [
        Pace(0.0, 0.1, spread=together),
        Pace(0.0, 0.1, spread=together),
        Pace(3.0, spread=alone),
        Pace(2.0),
    ]


@pytest.mark.parametrize(
    ("pace", "told"),
    [
        ("{scale: -1}", "nodes[0].pace: The scale of a pace is from 0 to 1e+06, not -1.0."),
        ("{scale: 0}", "nodes[0].pace: A pace has a scale, a fixed time or a time for a batch above zero; all are 0."),
        ("{fixed: 100}", "nodes[0].pace.fixed: a time is written like 20ms or 1.5s, not 100."),
        ("{numbers: real}", "nodes[0].pace.numbers: must be 'recorded' or 'held', not 'real'."),
        ("{sped: 1}", "nodes[0].pace.sped: there is no such key in nodes[0].pace; known are scale, fixed, numbers"),
        ("{spread: {slow: {dwell: 3, factor: 2}}}", "nodes[0].pace.spread.slow.probability: this key is needed"),
        ("{spread: {trace: [1, -1]}}", "nodes[0].pace: A factor of a pace's trace is from 1e-06 to 1e+06, not -1.0."),
    ],
)
def test_a_pace_that_is_none_is_refused_by_its_key(pace: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=re.escape(told)):
        read(tmp_path, f"nodes: [{{pace: {pace}}}]")


def test_a_file_that_paces_some_of_its_nodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"Either all nodes of a cluster are paced, .*; without a pace are node1"):
        read(tmp_path, "nodes: [{pace: {}}, {}]")


NO_TEXTS = {
    "no": "false",
    "No": "false",
    "off": "false",
    "on": "true",
    "yes": "true",
    "true": "true",
    "012": "the number 10",
    "0x10": "the number 16",
    "1_000": "the number 1000",
    "1:30": "the number 90",
    "1.0e+3": "the number 1000.0",
    ".5": "the number 0.5",
    ".inf": "the number inf",
    ".nan": "the number nan",
    "12": "the number 12",
}
"""Unquoted texts, and the values that YAML 1.1 makes of them."""

PLACES = {
    "racks: {%s: {up: 1gbit}, b: {}}\nnodes: [{rack: a}, {rack: b}]": "racks",
    "racks: {a: {up: 1gbit}, b: {}}\nnodes: [{rack: a}, {rack: %s}]": "nodes[1].rack",
    "nodes: [{name: %s}, {name: b}]": "nodes[0].name",
    "nodes: [{name: a}, {name: %s, count: 3}]": "nodes[1].name",
    "nodes: [{name: a, address: %s}, {name: b}]": "nodes[0].address",
    "link: 1gbit\nnodes: [{}, {}]\nchanges: [{after: 3s, nodes: {%s: {up: 1gbit}}}]": "changes[0].nodes",
}


@pytest.mark.parametrize("text", NO_TEXTS)
@pytest.mark.parametrize("place", PLACES)
def test_a_text_that_yaml_reads_as_something_else_is_to_be_quoted(place: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as refusal:
        read(tmp_path, place % text)
    told = f"{PLACES[place]}: YAML reads {text} as {NO_TEXTS[text]}, not as a text; quote it: '{text}'."
    assert str(refusal.value).endswith(told)


def test_a_rack_named_null_is_to_be_quoted(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="racks: YAML reads ~ as null, not as a text; quote it: '~'"):
        read(tmp_path, "racks: {~: {}, b: {}}\nnodes: [{rack: b}, {rack: b}]")


@pytest.mark.parametrize("text", [text for text in NO_TEXTS if text[0] != "." and "+" not in text and ":" not in text])
def test_such_a_text_in_quotes_is_a_name(text: str, tmp_path: Path) -> None:
    cluster = read(tmp_path, f"racks: {{'{text}': {{}}, b: {{}}}}\nnodes: [{{rack: '{text}'}}, {{rack: b}}]")
    assert text in cluster.switches
    assert read(tmp_path, f'nodes: [{{name: "{text}"}}, {{}}]').nodes[0].name == text


def test_keys_that_yaml_reads_as_one_value_are_to_be_quoted(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="YAML reads the keys no and off as the same value; quote them: 'no', 'off'"):
        read(tmp_path, "racks: {no: {}, off: {}}\nnodes: [{rack: no}, {rack: off}]")


def test_a_value_of_another_kind_is_told_as_the_file_has_it(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"nodes\[0\].cores: .*, not yes\."):
        read(tmp_path, "nodes: [{cores: yes}, {}]")
