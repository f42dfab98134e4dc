"""Algorithms, compressors and staleness: when a space offers them, and the declaration that it needs."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest

from autosync.errors import SpaceError
from autosync.layout.all_reduce import layout_of
from autosync.space import (
    ALGORITHMS,
    GPU_ALGORITHMS,
    LOSSLESS,
    Cast,
    Cut,
    PowerSGD,
    Rule,
    Servers,
    Space,
    SufficientFactors,
    TopK,
)
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    Compressor,
    Discipline,
    Figure,
    ModelSpec,
    Node,
    ParameterServer,
    Partition,
    Rhythm,
    Strategy,
    Variable,
    VariableStrategy,
)
from search_spaces.default import SPACE as DEFAULT
from search_spaces.lossy import SPACE as LOSSY
from tests import cases
from tests.space.wide import WIDE, factored_model

MATRIX = Variable("v", (300, 200), "float32", 0)
CAST, FACTORS = Cast("bf16"), SufficientFactors()
GPUS_AND_CPUS = ClusterSpec.star(
    (Node("node0", "10.0.0.1", 16.0, gpus=2), Node("node1", "10.0.0.2", 16.0)), *(Figure(1.0, "stated"),) * 4
)
KNOWN = ["ring", "tree", "halving_doubling", "rabenseifner", "hierarchical", "collective"]
"""All algorithms that differ for four replicas on two nodes."""


def offered(variable: Variable, cluster: ClusterSpec, **rule: Any) -> tuple[list[str], list[Compressor | None]]:
    """The offered algorithms of all-reduces, and the offered compressors on servers, in order."""
    rules = (Rule(servers=Servers("first"), all_reduce=True, **rule),)
    space = Space("s", rules, changes_statistics=True).bind(ModelSpec("one", 1, "SGD", 0, (variable,)), cluster)
    (domain,) = space.domains.each
    return [shard.algorithm for shard in domain.reductions], [server.compressor for server in domain.servers]


@pytest.mark.parametrize(
    ("cluster", "algorithms"),
    [
        (cases.local_cluster(2), ["ring", "collective"]),
        (cases.local_cluster(3), ["ring", "tree", "halving_doubling", "collective"]),
        (cases.local_cluster(4), ["ring", "tree", "halving_doubling", "collective", "blueconnect"]),
        (cases.star_cluster(4), ["ring", "tree", "halving_doubling", "collective", "blueconnect"]),
        (cases.star_cluster(6), ["ring", "tree", "halving_doubling", "collective", "direct"]),
        (cases.rack_cluster(), ["ring", "tree", "halving_doubling", "rabenseifner", "collective", "fitted"]),
        (cases.racks(2, 3), ["ring", "tree", "halving_doubling", "rabenseifner", "collective", "fitted"]),
        (cases.racks(1, 1, 1, 1), ["ring", "tree", "halving_doubling", "collective", "blueconnect"]),
        (cases.star_cluster(2, workers=2), [*KNOWN, "fitted"]),
        (cases.gpu_cluster(), [*KNOWN, "blueconnect", "direct"]),
    ],
)
def test_algorithms_are_offered_where_they_make_a_difference(cluster: ClusterSpec, algorithms: list[str]):
    assert offered(MATRIX, cluster, algorithms=ALGORITHMS)[0] == algorithms


@pytest.mark.parametrize(
    ("cluster", "algorithms"),
    [
        (cases.gpu_cluster(), ["ring", "collective"]),
        (cases.gpu_cluster(1, 2), ["ring", "collective"]),
        (cases.gpu_cluster(1, 1), ["ring"]),
        (cases.star_cluster(4), ["ring"]),
        (GPUS_AND_CPUS, ["ring"]),
    ],
    ids=["GPUs", "two GPUs", "one GPU", "CPUs", "GPUs and CPUs"],
)
def test_algorithms_for_gpus_are_offered_where_every_replica_runs_on_one(cluster: ClusterSpec, algorithms: list[str]):
    assert offered(MATRIX, cluster, gpu_algorithms=GPU_ALGORITHMS)[0] == algorithms


def test_an_algorithm_that_makes_no_difference_gives_way_to_the_ring():
    assert offered(MATRIX, cases.local_cluster(2), algorithms=("tree",))[0] == ["ring"]


def test_gathered_variables_have_no_choice_of_algorithm():
    cluster, rows = cases.star_cluster(4), Variable("v", (300, 200), "float32", 0, True, 5.0)
    assert offered(rows, cluster, algorithms=ALGORITHMS)[0] == ["ring"]
    assert offered(MATRIX, cluster, algorithms=ALGORITHMS, compressors=(TopK(0.1),))[0] == ["ring"]


@pytest.mark.parametrize(
    ("variable", "fitting"),
    [
        (MATRIX, [None, CAST, TopK(0.1), PowerSGD(2)]),
        (replace(MATRIX, factor_rows=16), [None, CAST, TopK(0.1), PowerSGD(2), FACTORS]),
        (replace(MATRIX, factor_rows=300), [None, CAST, TopK(0.1), PowerSGD(2)]),
        (replace(MATRIX, dtype="float16"), [None]),
        (Variable("v", (300,), "float32", 0), [None, CAST, TopK(0.1)]),
        (Variable("v", (300, 200), "float32", 0, True, 5.0), [None, CAST]),
    ],
    ids=["a matrix", "with few factors", "with many factors", "of 16 bits", "a vector", "sparse"],
)
def test_servers_are_pushed_what_fits_the_variable_and_saves_bytes(variable: Variable, fitting: list[Any]):
    compressors = (None, CAST, TopK(0.1), TopK(0.1, "star"), PowerSGD(2), FACTORS)
    assert offered(variable, cases.star_cluster(4), compressors=compressors)[1] == fitting


@pytest.mark.parametrize(("nodes", "gathered"), [(4, True), (16, False)])
def test_factors_are_gathered_where_they_are_less_than_what_a_ring_sends(nodes: int, gathered: bool):
    model = ModelSpec("one", 1, "SGD", 0, (replace(MATRIX, factor_rows=30),))
    (domain,) = (
        Space("s", (Rule(all_reduce=True, compressors=LOSSLESS),)).bind(model, cases.star_cluster(nodes)).domains.each
    )
    assert (FACTORS in [shard.compressor for shard in domain.reductions]) == gathered


def test_a_variable_that_no_compressor_fits_is_sent_as_it_is():
    rows = Variable("v", (300, 200), "float32", 0, True, 5.0)
    assert offered(rows, cases.star_cluster(4), compressors=(TopK(0.1),))[1] == [None]


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (
            Space("s", (Rule(all_reduce=True, compressors=(None, TopK(0.01, "var"))),)),
            "Space 's' offers compressor top_k 0.01 var, which changes the numbers that training follows; "
            "declare it with changes_statistics=True, or take it out.",
        ),
        (
            Space("s", (Rule(servers=Servers()),), staleness=(0, 2)),
            "Space 's' offers staleness 2, which changes the numbers that training follows; "
            "declare it with changes_statistics=True, or take it out.",
        ),
        (
            Space("s", (Rule(all_reduce=True),), staleness=(0, 2), changes_statistics=True),
            "Space 's' offers staleness, which needs every variable on parameter servers, uncompressed and without "
            "local copies, but a rule does not offer that to variable 'a'; add it.",
        ),
    ],
    ids=["lossy", "stale", "all-reduced"],
)
def test_only_a_space_that_declares_it_may_change_the_statistics(space: Space, message: str):
    with pytest.raises(SpaceError, match=f"^{re.escape(message)}$"):
        space.bind(cases.scalar_model(), cases.local_cluster())


def test_the_declared_spaces_lose_nothing_but_the_one_that_says_so():
    model, cluster, rng = factored_model(), cases.star_cluster(2, workers=2), random.Random(0)
    assert not any(DEFAULT.bind(model, cluster).sample(rng).changes_statistics for _ in range(100))
    assert any(LOSSY.bind(model, cluster).sample(rng).changes_statistics for _ in range(20))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"algorithms": ("butterfly",)},
            "Rule(algorithms) is some of ring, tree, halving_doubling, rabenseifner, hierarchical, collective, "
            "blueconnect, direct, fitted",
        ),
        ({"compressors": ()}, "Rule(compressors) needs None or a compressor that fits any matrix"),
        ({"compressors": (FACTORS,)}, "sufficient factors alone do not."),
    ],
)
def test_a_rule_that_is_declared_wrongly_says_how(arguments: dict[str, Any], message: str):
    with pytest.raises(SpaceError, match=re.escape(message)):
        Rule(all_reduce=True, **arguments)


def test_an_algorithm_for_gpus_that_does_not_exist_is_refused():
    with pytest.raises(SpaceError, match=re.escape("Rule(gpu_algorithms) is some of ring, tree,")):
        Rule(all_reduce=True, gpu_algorithms=("nccl",))


def test_staleness_without_zero_is_refused():
    with pytest.raises(SpaceError, match=re.escape("staleness holds 0 and numbers above it, not (1,).")):
        Space("s", (Rule(servers=Servers()),), staleness=(1,))


def test_samples_of_a_wide_space_use_all_of_it():
    cluster = cases.star_cluster(2, workers=2)
    space = WIDE.bind(factored_model(), cluster)
    shards = [shard for seed in range(600) for _, _, shard in space.sample(random.Random(seed)).shards()]
    reduced = [shard for shard in shards if isinstance(shard, AllReduce)]
    served = [shard for shard in shards if isinstance(shard, ParameterServer)]
    compressors = {None, FACTORS, CAST, TopK(0.05), PowerSGD(2)}
    assert {shard.algorithm for shard in reduced} == {name for name in ALGORITHMS if layout_of(name).differs(cluster)}
    assert {shard.compressor for shard in reduced} == compressors | {TopK(0.01, "star"), TopK(0.01, "var")}
    assert {shard.compressor for shard in served} == compressors
    assert {shard.staleness for shard in served} == {0, 1, 4}


def whole(kernel: AllReduce | ParameterServer, others: AllReduce | ParameterServer | None = None) -> Any:
    """A strategy of the factored model: the stated shards for its first kernel, `others` for the rest."""
    space = Space(
        "s",
        (
            Rule(
                servers=Servers(),
                all_reduce=True,
                cut=Cut((1, 2)),
                algorithms=("ring", "tree"),
                compressors=(None, CAST, FACTORS),
            ),
        ),
        max_buckets=2,
        staleness=(0, 2),
        changes_statistics=True,
    ).bind(factored_model(), cases.star_cluster(4))
    strategy = space.sample(random.Random(0))
    variables = [replace(decision, shards=(others or AllReduce(0),), partition=None) for decision in strategy.variables]
    variables[0] = replace(variables[0], shards=(kernel,))
    return space, replace(strategy, variables=tuple(variables))


@pytest.mark.parametrize(
    ("kernel", "others", "reason"),
    [
        (AllReduce(1, "tree", CAST), None, None),
        (AllReduce(0, compressor=FACTORS), AllReduce(1), None),
        (ParameterServer("node0/cpu:0", compressor=FACTORS), None, None),
        (ParameterServer("node0/cpu:0", staleness=2), ParameterServer("node1/cpu:0", staleness=2), None),
        (
            AllReduce(1, "hierarchical"),
            None,
            "Variable 'dense_0/kernel' is all-reduced by hierarchical; the space offers: ring, tree, ring bf16, "
            "tree bf16, ring sufficient_factors.",
        ),
        (
            AllReduce(1, compressor=TopK(0.1)),
            None,
            "Variable 'dense_0/kernel' is sent top_k 0.1 own; the space offers: uncompressed, bf16, "
            "sufficient_factors.",
        ),
        (
            AllReduce(0, "tree"),
            None,
            "Bucket 0 mixes tree dense float32 with dense float32 gradients (variable 'dense_0/bias'); "
            "a bucket of the space holds one kind.",
        ),
        (
            AllReduce(0, compressor=CAST),
            None,
            "Bucket 0 mixes dense float32 bf16 with dense float32 gradients (variable 'dense_0/bias'); "
            "a bucket of the space holds one kind.",
        ),
        (
            ParameterServer("node0/cpu:0", staleness=3),
            ParameterServer("node0/cpu:0", staleness=3),
            "Replicas may run ahead by 3 steps; the space offers a staleness of 0, 2.",
        ),
        (
            ParameterServer("node0/cpu:0", staleness=2),
            AllReduce(0),
            "Replicas may run ahead by 2 steps with some shards only; all must have one staleness, "
            "on parameter servers, uncompressed and without local copies.",
        ),
    ],
)
def test_why_an_exchange_lies_outside_is_told_in_one_sentence(kernel: Any, others: Any, reason: str | None):
    space, strategy = whole(kernel, others)
    assert space.why_not(strategy) == reason
    assert space.contains(space.adopt(strategy, random.Random(0)))


def test_a_discipline_lies_outside():
    space, strategy = whole(AllReduce(0))
    local = replace(strategy, discipline=Discipline(Rhythm(8)))
    assert (space.why_not(strategy), space.why_not(local)) == (
        None,
        "A space holds strategies whose steps are all alike, but this one has a discipline.",
    )


def test_sufficient_factors_of_a_cut_variable_lie_outside():
    space, strategy = whole(AllReduce(0))
    cut = replace(strategy.variables[0], shards=(AllReduce(1, compressor=FACTORS),) * 2, partition=Partition(0, 2))
    strategy = replace(strategy, variables=(cut, *strategy.variables[1:]))
    reason = "Variable 'dense_0/kernel' is cut, but sufficient factors stand for a whole matrix."
    assert space.why_not(strategy) == reason


def test_an_algorithm_and_compressor_that_are_not_offered_are_adopted_as_the_plainest():
    plain = Space("s", (Rule(servers=Servers(), all_reduce=True),), 8).bind(factored_model(), cases.star_cluster(4))
    for kernel in (AllReduce(1, "tree", CAST), AllReduce(1, compressor=FACTORS)):
        _, strategy = whole(kernel)
        assert plain.adopt(strategy, random.Random(0)).variables[0].shards == (AllReduce(0),)
    _, strategy = whole(ParameterServer("node2/cpu:0", staleness=2), ParameterServer("node2/cpu:0", staleness=2))
    adopted = plain.adopt(strategy, random.Random(0))
    assert {shard for _, _, shard in adopted.shards()} == {ParameterServer("node0/cpu:0")}


def test_nodes_are_alike_in_a_ring_and_told_apart_by_their_place_in_a_tree():
    space, ring = whole(ParameterServer("node2/cpu:0"))
    assert space.canonical(ring).variables[0].shards == (ParameterServer("node0/cpu:0"),)
    _, tree = whole(ParameterServer("node2/cpu:0"), AllReduce(0, "tree"))
    assert space.canonical(tree) == tree


@pytest.mark.parametrize("algorithm", ["halving_doubling", "rabenseifner"])
@pytest.mark.parametrize(
    ("cluster", "first"),
    [(cases.star_cluster(4), 0), (cases.rack_cluster(), 0), (cases.star_cluster(7), 1), (cases.racks(3, 5), 1)],
    ids=["a star of four", "racks of two", "a star of seven", "racks of three and five"],
)
def test_nodes_are_alike_where_halving_groups_them_alike(cluster: ClusterSpec, first: int, algorithm: str):
    space = Space("s", (Rule(servers=Servers(), all_reduce=True, algorithms=ALGORITHMS),), 8)
    bound = space.bind(cases.mlp_model(), cluster)
    served, *reduced = (variable.name for variable in bound.model.variables)
    decided = [VariableStrategy(served, (ParameterServer("node1/cpu:0"),))]
    decided += [VariableStrategy(name, (AllReduce(0, algorithm),)) for name in reduced]
    canonical = bound.canonical(Strategy(bound.replicas, tuple(decided)))
    assert canonical.variables[0].shards == (ParameterServer(f"node{first}/cpu:0"),)


@pytest.mark.parametrize(
    ("cluster", "first"),
    [(cases.racks(2, 2), 0), (cases.racks(3, 2), 1), (cases.star_cluster(5), 0)],
    ids=["racks of two", "racks of three and two", "a star"],
)
def test_nodes_are_alike_where_relays_have_as_much_to_send(cluster: ClusterSpec, first: int):
    bound = Space("s", (Rule(servers=Servers(), all_reduce=True),), 8).bind(cases.ncf_like_model(), cluster)
    decided = [
        VariableStrategy(variable.name, (AllReduce(int(variable.sparse)),)) for variable in bound.model.variables
    ]
    served = next(place for place, variable in enumerate(bound.model.variables) if not variable.sparse)
    name = bound.model.variables[served].name
    decided[served] = VariableStrategy(name, (ParameterServer("node1/cpu:0"),))
    canonical = bound.canonical(Strategy(bound.replicas, tuple(decided)))
    assert canonical.variables[served].shards == (ParameterServer(f"node{first}/cpu:0"),)
