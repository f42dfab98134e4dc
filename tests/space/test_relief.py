"""Moves that take load off a busy resource: traffic moves elsewhere, or is sent in another way."""

from __future__ import annotations

import random

from autosync.space.relief_moves import relieve
from autosync.spec import AllReduce, ParameterServer, Strategy, VariableStrategy
from search_spaces.default import SPACE as DEFAULT
from tests import cases

SPACE = DEFAULT.bind(cases.bert_like_model(layers=1), cases.star_cluster(nodes=4))
NAMES = [variable.name for variable in SPACE.model.variables]
HEAVY = "embeddings/token"
BUSY = "node0/cpu:0"


def on_one_server() -> Strategy:
    return Strategy(SPACE.replicas, tuple(VariableStrategy(name, (ParameterServer(BUSY),)) for name in NAMES))


def reduced() -> Strategy:
    groups = {name: AllReduce(number % 2) for number, name in enumerate(NAMES)}
    return Strategy(SPACE.replicas, tuple(VariableStrategy(name, (groups[name],)) for name in NAMES))


def changed(start: Strategy, end: list[VariableStrategy]) -> set[str]:
    return {after.variable for before, after in zip(start.variables, end, strict=True) if before != after}


def test_only_variables_with_a_share_are_decided_anew_and_the_heavy_ones_more_often() -> None:
    start, index = on_one_server(), SPACE.domains.index_of
    light = "layer_0/attention/query/kernel"
    shares = {index[HEAVY]: 0.9, index[light]: 0.1}
    counts = dict.fromkeys((HEAVY, light), 0)
    for seed in range(80):
        draft = relieve(SPACE.domains, list(start.variables), shares, {BUSY}, random.Random(seed))
        assert draft is not None
        for name in changed(start, draft):
            counts[name] += 1
    assert counts[HEAVY] > 2 * counts[light] > 0


def test_a_shard_that_leaves_a_busy_server_goes_to_one_that_is_not_busy() -> None:
    start, homes = on_one_server(), set()
    busy = {BUSY, "node1/cpu:0"}
    for seed in range(60):
        shares = {SPACE.domains.index_of[HEAVY]: 1.0}
        draft = relieve(SPACE.domains, list(start.variables), shares, busy, random.Random(seed))
        assert draft is not None
        decision = draft[SPACE.domains.index_of[HEAVY]]
        if decision.partition is None and isinstance(decision.shards[0], ParameterServer):
            homes.add(decision.shards[0].device)
    assert homes == {"node2/cpu:0", "node3/cpu:0"}


def test_a_busy_bucket_is_reduced_by_another_algorithm_or_some_of_it_is_carried_in_another_way() -> None:
    start = reduced()
    shares = {SPACE.domains.index_of["layer_0/output/kernel"]: 1.0}
    algorithms, kinds = set(), set()
    for seed in range(60):
        draft = relieve(SPACE.domains, list(start.variables), shares, frozenset(), random.Random(seed))
        assert draft is not None
        shard = draft[SPACE.domains.index_of["layer_0/output/kernel"]].shards[0]
        kinds.add(type(shard))
        if isinstance(shard, AllReduce):
            algorithms.add(shard.algorithm)
    assert algorithms >= {"ring", "tree", "halving_doubling"}
    assert kinds == {AllReduce, ParameterServer}


def test_relief_stays_inside_the_space_and_without_shares_is_a_mutation() -> None:
    rng = random.Random(2)
    for _ in range(30):
        start = SPACE.sample(rng)
        shares = {name: rng.random() for name in rng.sample(NAMES, 5)}
        strategy = SPACE.relieve(start, shares, {BUSY}, rng)
        assert SPACE.why_not(strategy) is None
    start = on_one_server()
    assert SPACE.relieve(start, {}, frozenset(), random.Random(4)) == SPACE.mutate(start, random.Random(4))
