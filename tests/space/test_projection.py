"""The projection of a strategy from outside changes as little as possible."""

from __future__ import annotations

import random

from autosync.space import Cut, Rule, SearchSpace, Servers, Space
from autosync.spec import AllReduce, ParameterServer, Partition, Strategy, VariableStrategy
from tests import cases

CLUSTER = cases.uneven_cluster()
REPLICAS = tuple(map(str, CLUSTER.replica_devices))


def bind(rule: Rule, max_buckets: int = 8) -> SearchSpace:
    return Space("s", (rule,), max_buckets).bind(cases.prime_model(), CLUSTER)


def strategy(*embedding: AllReduce | ParameterServer, axis: int = 0) -> Strategy:
    """A strategy of the prime model: the stated shards for the embedding, all other variables in bucket 1."""
    cut = Partition(axis, len(embedding)) if len(embedding) > 1 else None
    return Strategy(
        REPLICAS,
        (
            VariableStrategy("user/embedding", embedding, cut),
            VariableStrategy("dense/kernel", (AllReduce(1),)),
            VariableStrategy("dense/bias", (AllReduce(1),)),
        ),
    )


def adopted(space: SearchSpace, strategy: Strategy) -> VariableStrategy:
    return space.adopt(strategy, random.Random(0)).by_name["user/embedding"]


def servers(decision: VariableStrategy) -> list[str]:
    return [shard.device for shard in decision.shards if isinstance(shard, ParameterServer)]


ON = {name: ParameterServer(name) for name in map(str, CLUSTER.server_devices)}


def test_a_cut_becomes_the_offered_one_nearest_in_ratio():
    space = bind(Rule(servers=Servers(), all_reduce=True, cut=Cut((1, 2, 8))))
    shards = [ON["node3/cpu:0"], ON["node0/cpu:0"], ON["node3/cpu:0"]]
    after = adopted(space, strategy(*shards))
    assert after.partition == Partition(0, 2)
    assert servers(after) == ["node3/cpu:0", "node0/cpu:0"]


def test_a_server_that_is_not_offered_becomes_one_on_the_same_node():
    space = bind(Rule(servers=Servers("one_per_node"), all_reduce=True))
    assert servers(adopted(space, strategy(ON["node0/cpu:1"]))) == ["node0/cpu:0"]


def test_a_server_on_a_node_without_one_becomes_another():
    space = bind(Rule(servers=Servers(("node3/cpu:0",)), all_reduce=True))
    assert servers(adopted(space, strategy(ON["node0/cpu:1"]))) == ["node3/cpu:0"]


def test_a_kind_that_is_not_offered_becomes_the_other():
    assert servers(adopted(bind(Rule(servers=Servers("first"))), strategy(AllReduce(0)))) == ["node0/cpu:0"]
    assert adopted(bind(Rule(all_reduce=True)), strategy(ON["node3/cpu:0"])).shards == (AllReduce(0),)


def test_shards_of_two_kinds_become_the_majoritys():
    space = bind(Rule(servers=Servers(), all_reduce=True, cut=Cut((1, 3))))
    after = adopted(space, strategy(AllReduce(0), ON["node3/cpu:0"], AllReduce(0)))
    assert {type(shard) for shard in after.shards} == {AllReduce}


def test_more_buckets_than_allowed_are_merged():
    space = bind(Rule(all_reduce=True), max_buckets=1)
    outside = Strategy(
        REPLICAS,
        (*strategy(AllReduce(0)).variables[:2], VariableStrategy("dense/bias", (AllReduce(2),))),
    )
    after = space.adopt(outside, random.Random(0))
    assert after.by_name["dense/kernel"].shards == after.by_name["dense/bias"].shards


def test_variables_left_out_are_filled_in_and_unknown_ones_dropped():
    space = bind(Rule(servers=Servers(), all_reduce=True))
    strategy = Strategy(REPLICAS[:1], (VariableStrategy("nosuch", (AllReduce(0),)),))
    after = space.adopt(strategy, random.Random(0))
    assert space.contains(after)
