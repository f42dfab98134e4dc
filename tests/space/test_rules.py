"""The classes of the language: variables that they match, and arguments that they refuse."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from autosync.errors import SpaceError
from autosync.space import EVERYTHING, Cut, PartBytes, PerServer, Rule, Servers, Space, VariableFilter
from autosync.spec import Variable
from tests import cases

DENSE = Variable("layer_0/kernel", (64, 4), "float32", 0)
SPARSE = Variable("user/embedding", (64, 4), "float32", 0, sparse=True, rows_per_step=2.0)


@pytest.mark.parametrize(
    ("where", "matches"),
    [
        (EVERYTHING, (True, True)),
        (VariableFilter(sparse=True), (False, True)),
        (VariableFilter(sparse=False), (True, False)),
        (VariableFilter(over_bytes=1024), (False, False)),
        (VariableFilter(over_bytes=1023), (True, True)),
        (VariableFilter(under_bytes=1024), (False, False)),
        (VariableFilter(under_bytes=1025), (True, True)),
        (VariableFilter(named=("*/kernel",)), (True, False)),
        (VariableFilter(named=("*/kernel", "user/*")), (True, True)),
        (VariableFilter(named=("USER/*",)), (False, False)),
        (VariableFilter(sparse=True, over_bytes=2000), (False, False)),
        (VariableFilter(sparse=True, named=("user*",), under_bytes=2000), (False, True)),
    ],
)
def test_a_condition_holds_when_all_that_is_stated_holds(where: VariableFilter, matches: tuple[bool, bool]):
    assert (where.holds(DENSE), where.holds(SPARSE)) == matches


CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: VariableFilter(named="*/bias"), "VariableFilter(named=...) takes a tuple of patterns; write ('*/bias',)."),  # type: ignore[arg-type]
    (lambda: PerServer(0), "PerServer(times) must be at least 1, not 0."),
    (lambda: PartBytes(0), "PartBytes(limit) must be at least 1 byte, not 0."),
    (lambda: Cut(counts=()), "Cut(counts) needs one or more counts of at least 1, not ()."),
    (lambda: Cut(counts=(1, 0)), "Cut(counts) needs one or more counts of at least 1, not (1, 0)."),
    (lambda: Cut(axes="last"), "Cut(axes) is one of first, every, not 'last'."),  # type: ignore[arg-type]
    (lambda: Cut(min_shard_bytes=0), "Cut(min_shard_bytes) must be at least 1 byte, not 0."),
    (
        lambda: Servers(placement="anywhere"),  # type: ignore[arg-type]
        "Servers(placement) is one of all, one_per_node, first or a tuple of device names, not 'anywhere'.",
    ),
    (
        lambda: Servers(placement=()),
        "Servers(...) needs at least one device and one choice of local_copy; leave none empty.",
    ),
    (
        lambda: Servers(local_copy=()),
        "Servers(...) needs at least one device and one choice of local_copy; leave none empty.",
    ),
    (lambda: Rule(), "A rule must offer servers=Servers(...), all_reduce=True or both; VariableFilter("),
    (lambda: Space("s", ()), "Space 's' needs at least one rule; none was given."),
    (lambda: Space("s", (Rule(all_reduce=True),), 0), "Space 's': max_buckets must be at least 1, not 0."),
]


@pytest.mark.parametrize(("build", "message"), CASES)
def test_a_declaration_that_breaks_a_rule_is_refused(build: Callable[[], Any], message: str):
    with pytest.raises(SpaceError, match=re.escape(message)):
        build()


@pytest.mark.parametrize(
    ("placement", "devices"),
    [
        ("all", ("node0/cpu:0", "node0/cpu:1", "node1/cpu:0", "node1/cpu:1")),
        ("one_per_node", ("node0/cpu:0", "node1/cpu:0")),
        ("first", ("node0/cpu:0",)),
        (("node1/cpu:1", "node0/cpu:0"), ("node0/cpu:0", "node1/cpu:1")),
    ],
)
def test_placements_name_server_devices_in_the_clusters_order(placement: Any, devices: tuple[str, ...]):
    assert Servers(placement).devices(cases.star_cluster(nodes=2, workers=2)) == devices


def test_servers_beside_gpus_are_on_cpus():
    assert Servers().devices(cases.gpu_cluster()) == ("node0/cpu:0", "node1/cpu:0")


def test_a_named_server_that_the_cluster_lacks_is_refused():
    message = "The space puts parameters on 'node0/gpu:0', which this cluster lacks. Servers: node0/cpu:0, node1/cpu:0."
    with pytest.raises(SpaceError, match=re.escape(message)):
        Servers(("node0/gpu:0",)).devices(cases.gpu_cluster())
