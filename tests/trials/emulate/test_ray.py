"""Real Ray nodes on emulated hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from autosync.errors import ClusterError
from tests.trials.emulate.clusters import fewer_cores, needs_root, remains, two_racks
from trials.cluster.racks import star_of
from trials.emulate import Emulated, add_node, down, find, kill_node, restart_node, start_inside, up
from trials.emulate.ray_nodes import ray_nodes_of, start_arguments
from trials.emulate.status import status_lines

pytestmark = needs_root

DRIVER = """
import json, os, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On
ray.init(log_to_driver=False, logging_level="ERROR")
@ray.remote
def where():
    return ray.util.get_node_ip_address(), os.path.expanduser("~"), len(os.listdir(os.path.expanduser("~")))
nodes = [node for node in ray.nodes() if node["Alive"]]
for node in nodes:
    node["Where"] = ray.get(where.options(scheduling_strategy=On(node["NodeID"], soft=False)).remote())
print(json.dumps({node["NodeManagerAddress"]: node for node in nodes}))
"""


@pytest.fixture(scope="module")
def cluster(module_name: str) -> Iterator[Emulated]:
    yield up(module_name, two_racks(cores=fewer_cores(1.5)))
    down(module_name)
    assert remains(module_name) == []


def driven(cluster: Emulated) -> dict[str, dict[str, object]]:
    """Return the facts that a driver on the head reports of each node, by address."""
    driver = start_inside(cluster.hosts[0], [sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True)
    printed, _ = driver.communicate(timeout=120)
    assert driver.returncode == 0
    nodes: dict[str, dict[str, object]] = json.loads(printed.splitlines()[-1])
    return nodes


def test_nodes_have_their_addresses_racks_cores_and_homes(cluster: Emulated) -> None:
    nodes = driven(cluster)
    home = str(cluster.token_path.parent / "home")
    assert {address: node["Where"][:2] for address, node in nodes.items()} == {  # type: ignore[index]
        "10.77.0.1": ["10.77.0.1", home],
        "10.77.0.2": ["10.77.0.2", home],
    }
    labels = {address: node["Labels"] for address, node in nodes.items()}
    assert labels["10.77.0.1"]["rack"] == "left"  # type: ignore[index]
    assert labels["10.77.0.2"]["rack"] == "right"  # type: ignore[index]
    assert labels["10.77.0.1"]["autosync-cores"] == f"{fewer_cores(1.5):g}"  # type: ignore[index]
    assert labels["10.77.0.2"]["autosync-machine-cores"] == str(os.cpu_count())  # type: ignore[index]
    assert [line.split()[-1] for line in status_lines(cluster)[1:3]] == ["alive", "alive"]


def test_the_dashboard_answers_outside_and_asks_for_the_token(cluster: Emulated) -> None:
    url = f"{cluster.dashboard_url}/api/cluster_status"
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(url, timeout=20)
    token = cluster.token_path.read_text(encoding="ascii")
    asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=20) as answer:
        assert json.load(answer)["result"] is True


@pytest.mark.thorough
def test_a_node_dies_comes_back_and_one_more_joins(cluster: Emulated) -> None:
    kill_node(cluster, "b")
    assert find(cluster.name) == cluster
    with pytest.raises(ClusterError, match="Node 'a' is the head, and a Ray cluster ends with its head"):
        restart_node(cluster, "a")
    larger = add_node(restart_node(cluster, "b"))
    alive = {node["address"] for node in ray_nodes_of(larger.hosts[0], 30.0) if node["alive"]}
    assert alive == {"10.77.0.1", "10.77.0.2", "10.77.0.3"}


@pytest.mark.thorough
def test_a_ray_that_cannot_start_is_told_with_its_last_words_and_nothing_stays(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trials.emulate.ray_nodes.OBJECT_STORE_BYTES", 1)
    with pytest.raises(
        ClusterError, match=r"Ray could not be started on node 'node0': '.*object store.*'\. Check that"
    ):
        up(name, star_of(1, 1.0))
    assert remains(name) == []


def test_ray_is_told_of_slots_for_workers_and_of_true_cores(cluster: Emulated) -> None:
    host, node = cluster.hosts[1], replace(cluster.cluster.nodes[1], cores=0.5, workers=6, gpus=0)
    arguments = start_arguments(host, node, rack=None)
    assert {
        "--num-cpus=8",
        '--resources={"autosync_cores": 1}',
        f"--labels=autosync-cores=0.5,autosync-workers=6,autosync-machine=emulating,autosync-machine-cores={os.cpu_count()}",
        "--address=10.77.0.1:6379",
        "--num-gpus=0",
    } <= set(arguments)
