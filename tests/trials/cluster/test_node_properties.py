"""A property of a node reaches JSON, the cluster file, Ray's labels and the words.

If you add a field to `Node`, this test lists the places that still ignore it.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from autosync.errors import ClusterError
from autosync.spec import (
    ClusterSpec,
    Figure,
    Node,
    Pace,
    ParameterServer,
    SharedCores,
    Slow,
    Spread,
    Strategy,
    VariableStrategy,
    canonical_json,
    canonical_strategy,
    parse_json,
)
from autosync.spec.pace import MOST_TRACED
from autosync.words.cluster import cluster_lines, pace_in_words, unlike_nodes
from tests import cases
from trials.cluster.file import read_cluster_file
from trials.cluster.node_matching import unlike_machines
from trials.cluster.ray_labels import machines_of, start_options

PLAIN = Node("a", "10.0.0.1", cores=2.0)

PACE = Pace(5.0, 0.02, "held", Spread(0.1, Slow(0.25, 50, 3.0), (1.0, 1.5)), batch_seconds=0.03)
STATED: dict[str, Any] = {"cores": 0.5, "gpus": 3, "pace": PACE}
"""Properties of machines that a cluster file states, and that make nodes alike; for each, a value that `PLAIN`
lacks.
"""

WRITTEN = {
    "pace": "{scale: 5, fixed: 20ms, batch: 30ms, numbers: held, spread: "
    "{lognormal: 0.1, slow: {probability: 0.25, dwell: 50, factor: 3}, trace: [1, 1.5]}}"
}
"""The text in a cluster file, if it differs from the value."""

OTHERS: dict[str, Any] = {
    "name": "b",
    "address": "10.0.0.2",
    "workers": 3,
    "copy_gbit_per_s": Figure(9.0, "measured"),
    "message_us": Figure(7.0, "measured"),
    "shared_cores": SharedCores("one", 2.0),
}
"""Fields that are no property of the machine, or are discovered and never stated."""

OF_MACHINES = STATED | {"shared_cores": OTHERS["shared_cores"]}
TOLD_TO_RAY = OF_MACHINES | {"workers": OTHERS["workers"]}


def with_one(field: str) -> Node:
    return replace(PLAIN, **{field: (STATED | OTHERS)[field]})


def said_to_ray(node: Node) -> dict[str, Any]:
    """Return the answer of `ray.nodes()` for a node started with the options for `node`."""
    options = dict(option.removeprefix("--").split("=", 1) for option in start_options(node, "left"))
    resources = {"CPU": float(options["num-cpus"]), "GPU": float(options["num-gpus"])}
    resources |= parse_json(options["resources"], "Resources")
    labels = dict(label.split("=") for label in options["labels"].split(","))
    return {"Alive": True, "NodeManagerAddress": node.address, "Resources": resources, "Labels": labels}


def test_every_field_of_a_node_is_in_one_of_the_tables_here() -> None:
    assert {field.name for field in fields(Node)} == STATED.keys() | OTHERS.keys()


@pytest.mark.parametrize("field", STATED | OTHERS)
def test_it_goes_through_json(field: str) -> None:
    node = with_one(field)
    assert node != PLAIN
    assert Node.from_json(parse_json(canonical_json(node.to_json()), "A node")) == node


@pytest.mark.parametrize("field", STATED)
def test_a_cluster_file_states_it(field: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    stated = {"name": "a", "address": PLAIN.address, "cores": PLAIN.cores} | {field: WRITTEN.get(field, STATED[field])}
    file.write_text(f"nodes: [{{{', '.join(f'{key}: {value}' for key, value in stated.items())}}}]", encoding="utf-8")
    assert read_cluster_file(file).nodes == (with_one(field),)


@pytest.mark.parametrize("field", TOLD_TO_RAY)
def test_ray_is_told_of_it_and_tells_of_it_again(field: str) -> None:
    node = with_one(field)
    (machine,) = machines_of([said_to_ray(node)]).values()
    assert machine == replace(node, name=node.address)


LONGEST_ARGUMENT = 32 * 4096 - 1
"""The largest size in bytes of an argument of a program on Linux."""


def test_a_pace_of_the_longest_trace_fits_into_an_argument() -> None:
    factor = 1.2345678901234567e-06
    assert len(repr(factor)) == 22, "no number from 1e-6 to 1e6 is longer"
    node = replace(PLAIN, pace=replace(PACE, spread=replace(PACE.spread, trace=(factor,) * MOST_TRACED)))
    assert max(map(len, start_options(node, "left"))) <= LONGEST_ARGUMENT
    assert next(iter(machines_of([said_to_ray(node)]).values())).pace == node.pace


@pytest.mark.parametrize(("number", "text"), [("x", "00"), ("0", "0g"), ("0", "ff"), ("0", "7b7d")])
def test_labels_that_hold_no_pace_are_refused_with_the_nodes_address(number: str, text: str) -> None:
    """The labels hold a foreign name, no hexadecimal digits, no text, or no pace."""
    node = said_to_ray(PLAIN)
    told = r"The labels autosync-pace-... of the Ray node at 10.0.0.1 hold no pace \(.*\); start Ray there without them"
    with pytest.raises(ClusterError, match=told):
        machines_of([{**node, "Labels": {**node["Labels"], f"autosync-pace-{number}": text}}])


@pytest.mark.parametrize("field", OF_MACHINES)
def test_a_node_that_was_stated_takes_it_over_from_the_one_found_there(field: str) -> None:
    assert PLAIN.on(replace(with_one(field), name="found", workers=1)) == with_one(field)


@pytest.mark.parametrize("field", STATED)
def test_nodes_that_differ_in_it_are_not_alike(field: str) -> None:
    assert with_one(field).machine != PLAIN.machine
    cluster = cases.star_cluster(2)
    first, second = cluster.nodes
    if field == "pace":  # all nodes have one, or none
        first = replace(first, pace=Pace(1.0, numbers="held"))
        cluster = replace(cluster, nodes=(first, replace(second, pace=first.pace)))
    second = replace(second, **{field: STATED[field]})
    unlike = replace(cluster, nodes=(first, second))
    assert unlike.digest != cluster.digest
    assert unlike_machines(cluster, unlike) == unlike_nodes(cluster.nodes[1], second)
    said = pace_in_words(PACE) if field == "pace" else f"{STATED[field]:g}"
    assert said in unlike_nodes(cluster.nodes[1], second)
    first_device, second_device = map(str, cluster.server_devices)
    shards = (ParameterServer(second_device),)
    served = Strategy((first_device, second_device), (VariableStrategy("v", shards),))
    assert canonical_strategy(served, cluster) != served
    assert canonical_strategy(served, unlike) == served
    assert len(_node_lines(cluster)) == 1
    assert len(_node_lines(unlike)) == 2
    assert any(said in line for line in _node_lines(unlike))


def _node_lines(cluster: ClusterSpec) -> list[str]:
    return [line for line in cluster_lines(cluster) if line.startswith(("Node ", f"{len(cluster.nodes)} nodes "))]
