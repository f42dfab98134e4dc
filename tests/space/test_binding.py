"""Binding rules to variables: the cuts and servers that each variable is offered."""

from __future__ import annotations

import re
from typing import Any

import pytest

from autosync.errors import SpaceError
from autosync.space import EVERYTHING, Cut, PartBytes, PerServer, Rule, Servers, Space, VariableFilter
from autosync.spec import MOST_SHARDS, ClusterSpec, ModelSpec, ParameterServer, Partition, Variable
from tests import cases


def model_of(shape: tuple[int, ...], sparse: bool = False) -> ModelSpec:
    variable = Variable("v", shape, "float32", 0, sparse, 4.0 if sparse else None)
    return ModelSpec("one", 1, "SGD", 0, (variable,))


def cuts_of(
    shape: tuple[int, ...], *counts: Any, sparse: bool = False, **settings: Any
) -> list[tuple[int, int] | None]:
    """(axis, shards) of every cut that is offered on 4 servers; None for whole."""
    space = Space("s", (Rule(all_reduce=True, cut=Cut(counts=counts, **settings)),))
    bound = space.bind(model_of(shape, sparse), cases.local_cluster(4))
    return [(cut.axis, cut.shards) if cut else None for cut in bound.domains.each[0].cuts]


def test_counts_come_from_numbers_servers_and_bytes():
    assert cuts_of((1000, 100), 1, 2, PerServer(1), PerServer(2), PartBytes(100_000)) == [None, (0, 2), (0, 4), (0, 8)]
    assert cuts_of((1000, 100), PartBytes(39_999)) == [(0, 11)]


def test_a_prime_number_of_rows_is_cut_like_any_other():
    counts = (1, 2, PerServer(1), PerServer(2), PartBytes(4_096_000))
    assert cuts_of((138_493, 16), *counts, sparse=True) == [None, (0, 2), (0, 3), (0, 4), (0, 8)]


def test_counts_are_clipped_to_the_axis():
    assert cuts_of((3, 1000), PerServer(2), min_shard_bytes=1) == [(0, 3)]
    assert cuts_of((1, 1000), PerServer(2), min_shard_bytes=1) == [None]


def test_counts_are_clipped_to_shards_worth_having():
    assert cuts_of((1000,), PerServer(2), min_shard_bytes=1000) == [(0, 4)]
    assert cuts_of((1000,), PerServer(2), min_shard_bytes=4000) == [None]


def test_counts_are_clipped_to_the_most_shards_of_a_variable():
    assert cuts_of((800_000, 2500), PerServer(2), PartBytes(4_096_000)) == [(0, 8), (0, MOST_SHARDS)]


def test_every_axis_is_offered_to_dense_variables_only():
    assert cuts_of((64, 64), 1, 2, axes="every") == [None, (0, 2), (1, 2)]
    assert cuts_of((64, 64), 1, 2, axes="every", sparse=True) == [None, (0, 2)]


def test_an_axis_too_short_to_cut_is_passed_over():
    assert cuts_of((1, 4096), 2, axes="every") == [(1, 2)]


def test_a_scalar_stays_whole():
    assert cuts_of((), 2, PerServer(1), PartBytes(1), axes="every", min_shard_bytes=1) == [None]


def test_the_first_rule_that_matches_decides():
    rules = (Rule(VariableFilter(named=("v",)), servers=Servers("first")), Rule(EVERYTHING, all_reduce=True))
    domain = Space("s", rules).bind(model_of((4,)), cases.local_cluster()).domains.each[0]
    assert (domain.servers, domain.offers_all_reduce) == ((ParameterServer("node0/cpu:0"),), False)


def test_a_variable_without_a_rule_is_an_error_that_names_it():
    space = Space("s", (Rule(VariableFilter(sparse=True), all_reduce=True),))
    message = "Space 's' has no rule for variable 'v' (16 bytes, dense); end its rules with one for EVERYTHING."
    with pytest.raises(SpaceError, match=re.escape(message)):
        space.bind(model_of((4,)), cases.local_cluster())


@pytest.mark.parametrize(
    ("cluster", "sparse", "copies"),
    [
        (cases.local_cluster(), False, [False]),
        (cases.star_cluster(), False, [False]),
        (cases.star_cluster(nodes=2, workers=2), False, [False, True]),
        (cases.star_cluster(nodes=2, workers=2), True, [False]),
        (cases.gpu_cluster(), False, [False, True]),
    ],
    ids=["one node", "one replica a node", "two replicas a node", "sparse", "gpus"],
)
def test_a_local_copy_is_offered_where_it_can_make_a_difference(cluster: ClusterSpec, sparse: bool, copies: list[bool]):
    space = Space("s", (Rule(servers=Servers("first", local_copy=(False, True))),))
    servers = space.bind(model_of((4,), sparse), cluster).domains.each[0].servers
    assert [server.local_copy for server in servers] == copies


def test_options_are_never_offered_twice():
    space = Space("s", (Rule(servers=Servers("all", (False, False, True)), cut=Cut((1, 2, 2, PerServer(1)))),))
    domain = space.bind(model_of((4096, 4)), cases.gpu_cluster()).domains.each[0]
    assert len(set(domain.servers)) == len(domain.servers) == 4
    assert domain.cuts == (None, Partition(0, 2))
