"""The command `autosync cluster`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosync.commands.cluster import main
from trials.cluster.file import read_cluster_file

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
REFUSED = 2

RESOURCES = """
nodes:
  - address: 10.20.41.55
    gpus: [0, 1, 1]
    cpus: [0, 1]
    ssh_config: lab
    network_bandwidth: 100
  - address: 10.20.41.54
    gpus: [0, 1, 2, 3]
    chief: true
    network_bandwidth: 0.2
  - address: 10.20.41.56
    cpus: [0, 1, 2]
    ssh_config: lab
ssh:
  lab: {username: me, key_file: /home/me/.ssh/id_rsa, port: 22}
"""


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line on stderr with which `arguments` are refused."""
    assert main([str(argument) for argument in arguments]) == REFUSED
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    return line


def resources(folder: Path, text: str) -> Path:
    file = folder / "resource_spec.yml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_schema_names_every_key_and_how_rates_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads(told(capsys, "schema"))
    assert list(schema["properties"]) == ["link", "pace", "racks", "nodes", "changes"]
    assert {"name", "address", "cores", "rack", "up"} <= set(schema["$defs"]["NodeEntry"]["properties"])
    assert r"^\d+(\.\d+)?(mbit|gbit)$" in json.dumps(schema["properties"]["link"]).replace("\\\\", "\\")


def test_a_file_is_shown_with_nodes_links_and_routes(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "show", TOPOLOGIES / "two_racks.yaml").splitlines()
    assert lines[0].startswith("4 nodes node0..node3: 1 worker, ")
    assert "Links of left, right to core: 0.3 Gbit/s (stated), 100 us (assumed), both ways" in lines
    assert "Routes from node0, node1 to node2, node3 over left, core, right: 0.3 Gbit/s (stated), 400 us" in lines


def test_resources_of_autodist_become_a_cluster_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "import", resources(tmp_path, RESOURCES))
    made = tmp_path / "cluster.yaml"
    made.write_text(text, encoding="utf-8")
    cluster = read_cluster_file(made)
    assert [(node.name, node.address, node.gpus, node.workers) for node in cluster.nodes] == [
        ("node0", "10.20.41.54", 4, 1),
        ("node1", "10.20.41.55", 2, 1),
        ("node2", "10.20.41.56", 0, 3),
    ]
    rates = {link.source: (link.gbit_per_s.value, link.gbit_per_s.source) for link in cluster.links}
    assert (rates["node0"], rates["node1"]) == ((0.2, "stated"), (100.0, "stated"))
    assert rates["node2"][1] == "assumed"
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# From an AutoDist resource_spec.yml, its chief first.",
        "# The ssh groups were omitted: Ray logs in, as its own cluster.yaml states.",
        "# No network_bandwidth was given for 10.20.41.56, so it is assumed until measured.",
        "# CPUs of nodes with GPUs were omitted: one worker process drives all GPUs of a node.",
    ]


def test_a_single_machine_may_be_called_localhost_and_needs_no_chief(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = told(capsys, "import", resources(tmp_path, "nodes: [{address: localhost, network_bandwidth: 0.0000001}]"))
    assert text.splitlines()[1:] == [
        "nodes:",
        "- {name: node0, address: 127.0.0.1, up: 0.0000001gbit, down: 0.0000001gbit}",
    ]


WRONG = {
    "nodes: [{address: host1}]": r"nodes[0].address: an address is an IP address or localhost, not 'host1'.",
    "nodes: [{gpus: [0]}]": "nodes[0].address: this key is needed; add it.",
    "nodes: [{address: 10.0.0.1, gpus: 4}]": "nodes[0].gpus: must be a valid list, not 4.",
    "nodes: [{address: 10.0.0.1, network_bandwidth: 0}]": "nodes[0].network_bandwidth: must be greater than 0, not 0.",
    "nodes: [{address: 10.0.0.1, tpus: 1}]": "nodes[0].tpus: there is no such key in nodes[0]; known are address,",
    "nodes: [{address: 10.0.0.1}, {address: 10.0.0.2}]": "exactly one of several nodes must have `chief: true`, not no",
    "nodes: [{address: 10.0.0.1, chief: true}, {address: 10.0.0.2, chief: true}]": "not 10.0.0.1, 10.0.0.2.",
    "nodes: [{address: 10.0.0.1, chief: true}, {address: 10.0.0.1}]": "every node has its own address, but two have 1",
    "nodes: [{address: 10.0.0.1, chief: true}, {address: localhost}]": "nodes[1].address: with several nodes, an",
    "ssh: {}": "nodes: this key is needed; add it.",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_resources_are_refused_in_a_sentence(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, "import", resources(tmp_path, text))
    assert line.startswith(f"cluster: Resource file '{tmp_path / 'resource_spec.yml'}', ")
    assert WRONG[text] in line


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Name a subcommand: schema, show FILE, or import FILE; see --help."),
        (("frobnicate",), "No such command 'frobnicate'."),
        (("show",), "Missing argument 'FILE'."),
        (("show", "nosuch.yaml"), "Cluster file 'nosuch.yaml' cannot be read: No such file or directory."),
        (("import", "nosuch.yml"), "Resource file 'nosuch.yml' cannot be read: No such file or directory."),
    ],
)
def test_nonsense_is_refused_in_a_sentence(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(capsys, *arguments) == f"cluster: {sentence}"
