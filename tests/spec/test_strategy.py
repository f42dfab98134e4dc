"""The strategy noun: refused values, JSON, and equality of strategies."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosync.errors import SpecError
from autosync.spec import (
    ALGORITHMS,
    AllReduce,
    BlockMomentum,
    Cast,
    CutOff,
    Discipline,
    Elastic,
    ParameterServer,
    Partition,
    PowerSGD,
    Rhythm,
    Strategy,
    SufficientFactors,
    TopK,
    VariableStrategy,
    canonical_json,
    parse_json,
    shard_sizes,
)

SERVER = ParameterServer("node0/cpu:0")

compressors = st.one_of(
    st.none(),
    st.builds(Cast, st.sampled_from(["bf16", "fp16"])),
    st.builds(TopK, st.floats(0.001, 0.5), st.sampled_from(["own", "star", "var"])),
    st.builds(PowerSGD, st.integers(1, 8)),
    st.builds(SufficientFactors),
)
synchronizers = st.one_of(
    st.builds(AllReduce, st.integers(0, 5), st.sampled_from(ALGORITHMS), compressors),
    st.builds(ParameterServer, st.sampled_from(["a/cpu:0", "b/cpu:0"]), st.booleans(), st.integers(0, 3), compressors),
)


@st.composite
def strategies(draw: st.DrawFn) -> Strategy:
    variables = []
    for index in range(draw(st.integers(1, 6))):
        count = draw(st.integers(1, 4))
        shards = tuple(draw(st.lists(synchronizers, min_size=count, max_size=count)))
        cut = Partition(draw(st.integers(0, 2)), count) if count > 1 else None
        variables.append(VariableStrategy(f"v{index}", shards, cut))
    return Strategy(("a/cpu:0", "b/cpu:0"), tuple(variables))


@given(strategies())
def test_a_strategy_comes_back_from_json_as_it_was(strategy: Strategy):
    again = Strategy.from_json(parse_json(canonical_json(strategy.to_json()), "The strategy"))
    assert again == strategy
    assert again.digest == strategy.digest


@given(strategies(), st.integers(0, 10**9))
def test_renumbering_groups_and_reordering_variables_does_not_change_the_digest(strategy: Strategy, seed: int):
    rng = random.Random(seed)
    numbers = rng.sample(range(100), 6)
    regrouped = tuple(
        replace(
            decision,
            shards=tuple(
                replace(shard, group=numbers[shard.group]) if isinstance(shard, AllReduce) else shard
                for shard in decision.shards
            ),
        )
        for decision in strategy.variables
    )
    shuffled = Strategy(strategy.replicas, tuple(rng.sample(regrouped, len(regrouped))))
    assert shuffled.digest == strategy.digest


@given(strategies())
def test_the_order_of_replicas_is_a_decision_because_rings_follow_it(strategy: Strategy):
    assert replace(strategy, replicas=strategy.replicas[::-1]).digest != strategy.digest


@given(strategies(), strategies())
def test_strategies_with_other_decisions_have_other_digests(first: Strategy, second: Strategy):
    same = first.with_groups_renumbered() == second.with_groups_renumbered()
    assert (first.digest == second.digest) == same


def test_merging_two_groups_changes_the_digest():
    apart = Strategy(("a/cpu:0",), (VariableStrategy("v", (AllReduce(0),)), VariableStrategy("w", (AllReduce(1),))))
    together = Strategy(("a/cpu:0",), (VariableStrategy("v", (AllReduce(0),)), VariableStrategy("w", (AllReduce(0),))))
    assert apart.digest != together.digest


def test_a_strategy_is_shown_as_one_short_line():
    whole = Strategy(("a/cpu:0", "b/cpu:0"), (VariableStrategy("w", (AllReduce(0),)),))
    assert repr(whole) == f"<Strategy {whole.digest[:8]}, variables: 1, replicas: 2>"
    assert repr(replace(whole, overlap_next_forward=True)).endswith(", replicas: 2, without a barrier>")


def test_groups_are_numbered_in_order_of_first_use():
    strategy = Strategy(
        ("a/cpu:0",), (VariableStrategy("v", (AllReduce(9), SERVER, AllReduce(4), AllReduce(9)), Partition(0, 4)),)
    )
    shards = strategy.with_groups_renumbered().variables[0].shards
    assert shards == (AllReduce(0), SERVER, AllReduce(1), AllReduce(0))


def test_options_that_are_off_are_left_out_of_the_json():
    assert SERVER.to_json() == {"parameter_server": "node0/cpu:0"}
    assert "partition" not in VariableStrategy("v", (SERVER,)).to_json()


@given(st.integers(1, 200_000), st.data())
def test_shards_differ_by_one_row_at_most_and_the_longer_come_first(rows: int, data: st.DataObject):
    count = data.draw(st.integers(1, min(rows, 50)))
    sizes = shard_sizes(rows, count)
    assert sum(sizes) == rows
    assert len(sizes) == count
    assert sizes == tuple(sorted(sizes, reverse=True))
    assert sizes[0] - sizes[-1] <= 1


def test_a_prime_number_of_rows_is_cut_into_uneven_shards():
    assert shard_sizes(138_493, 4) == (34_624, 34_623, 34_623, 34_623)


CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: shard_sizes(3, 4), "An axis of 3 rows can be cut into 1 to 3 shards, not 4."),
    (lambda: shard_sizes(3, 0), "An axis of 3 rows can be cut into 1 to 3 shards, not 0."),
    (
        lambda: Partition(0, 1),
        "A partition has an axis of at least 0 and 2 to 1024 shards, not 1 along axis 0.",
    ),
    (
        lambda: Partition(-1, 2),
        "A partition has an axis of at least 0 and 2 to 1024 shards, not 2 along axis -1.",
    ),
    (lambda: AllReduce(-1), "An all-reduce group is numbered from 0, not -1."),
    (
        lambda: AllReduce(0, "star"),
        "Unknown all-reduce algorithm 'star'. "
        "Known: ring, tree, halving_doubling, rabenseifner, hierarchical, collective, "
        "blueconnect, direct, fitted.",
    ),
    (lambda: ParameterServer("a/cpu:0", staleness=-1), "A parameter server's staleness is at least 0, not -1."),
    (lambda: Cast("int8"), "Gradients are cast to bf16 or fp16, not 'int8'."),
    (lambda: TopK(1.0), "Top-k keeps a ratio of the elements between 0 and 1, not 1.0."),
    (lambda: TopK(0.1, "theirs"), "Top-k's indices are one of own, star, var, not 'theirs'."),
    (lambda: PowerSGD(0), "PowerSGD needs a rank of at least 1, not 0."),
    (
        lambda: VariableStrategy("v", (SERVER, SERVER)),
        "Variable 'v' has 1 shard(s) but 2 synchronizer(s); give one each.",
    ),
    (
        lambda: VariableStrategy("v", (SERVER,), Partition(0, 3)),
        "Variable 'v' has 3 shard(s) but 1 synchronizer(s); give one each.",
    ),
    (lambda: Strategy((), ()), "A strategy needs one or more different replica devices, not []."),
    (
        lambda: Strategy(("a/cpu:0", "a/cpu:0"), ()),
        "A strategy needs one or more different replica devices, not ['a/cpu:0', 'a/cpu:0'].",
    ),
    (
        lambda: Strategy(("a/cpu:0",), (VariableStrategy("v", (SERVER,)), VariableStrategy("v", (SERVER,)))),
        "A strategy decides each variable once, but names 'v' twice.",
    ),
]


@pytest.mark.parametrize(("build", "message"), CASES)
def test_a_strategy_that_breaks_a_rule_is_refused(build: Callable[[], Any], message: str):
    with pytest.raises(SpecError, match=re.escape(message)):
        build()


def document(**shard: Any) -> dict[str, Any]:
    return {
        "format": "autosync.strategy/1",
        "replicas": ["a/cpu:0"],
        "variables": [{"variable": "v", "shards": [shard]}],
    }


@pytest.mark.parametrize(
    ("shard", "message"),
    [
        ({}, "A synchronizer is either a parameter_server or an all_reduce, but got {}."),
        ({"parameter_server": "a", "all_reduce": 0}, "A synchronizer is either a parameter_server or an all_reduce"),
        ({"parameter_server": "a", "algorithm": "ring"}, "A parameter server has the unknown field 'algorithm'."),
        ({"all_reduce": 0, "staleness": 1}, "An all-reduce has the unknown field 'staleness'."),
        ({"all_reduce": "0"}, "A synchronizer: 'all_reduce' must be int, not '0'."),
        ({"parameter_servers": "a"}, "A synchronizer has the unknown field 'parameter_servers'."),
    ],
)
def test_a_synchronizer_in_a_file_that_breaks_a_rule_is_refused(shard: dict[str, Any], message: str):
    with pytest.raises(SpecError, match=re.escape(message)):
        Strategy.from_json(document(**shard))


@pytest.mark.parametrize("replica", [{}, {"a": 1}, [], 0, 1.5, None, True])
def test_a_replica_that_is_no_text_is_refused(replica: object):
    with pytest.raises(SpecError, match=re.escape(f"A strategy: 'replicas' must be str, not {replica!r}.")):
        Strategy.from_json(document(all_reduce=0) | {"replicas": ["a/cpu:0", replica]})


@pytest.mark.parametrize("count", [1025, 10**9, 10**60])
def test_a_partition_of_more_shards_than_there_can_be_devices_is_refused(count: int):
    with pytest.raises(SpecError, match=f"2 to 1024 shards, not {count} along axis 0"):
        Partition(0, count)


LONG = "x" * 10_000_000


@pytest.mark.parametrize(
    "document",
    [
        {LONG: 1},
        {"format": LONG},
        document(**{LONG: 1}),
        document(parameter_server=[LONG]),
        document(all_reduce=0, algorithm=LONG),
        document(all_reduce=0, compressor={"name": LONG}),
        document(all_reduce=0, compressor={LONG: 1}),
        document(all_reduce=0) | {"replicas": [LONG, LONG]},
        document(all_reduce=0) | {"replicas": LONG},
        document(all_reduce=0) | {"variables": LONG},
        document(all_reduce=0) | {"variables": [{"variable": LONG, "shards": []}]},
        document(all_reduce=0) | {"variables": [{"variable": "v", LONG: 1, "shards": []}]},
    ],
    ids=range(12),
)
def test_a_refusal_of_ten_megabytes_quotes_one_line(document: dict[str, Any]):
    with pytest.raises(SpecError) as caught:
        Strategy.from_json(document)
    assert len(str(caught.value)) < 300


def test_a_variable_that_comes_twice_among_many_is_found_at_once():
    many = [VariableStrategy(f"v{index}", (SERVER,)) for index in range(60_000)]
    with pytest.raises(SpecError, match="names 'v59999' twice"):
        Strategy(("a/cpu:0",), (*many, many[-1]))


def test_a_file_of_another_format_is_refused():
    with pytest.raises(
        SpecError, match=re.escape("A strategy file says format 'autosync.strategy/1', but this one says None.")
    ):
        Strategy.from_json({"replicas": ["a/cpu:0"], "variables": []})


def test_a_file_may_hold_a_summary_for_people():
    assert Strategy.from_json(document(all_reduce=0) | {"summary": "all in one bucket"}).variables[0].shards == (
        AllReduce(0),
    )


def test_powersgd_factors_only_matrices_that_get_smaller():
    assert PowerSGD(2).matrix((3, 4, 5)) == (12, 5)
    assert PowerSGD(4).matrix((3, 4, 5)) is None
    assert PowerSGD(1).matrix((1000,)) is None
    assert PowerSGD(1).matrix(()) is None


def test_top_k_keeps_its_ratio_rounded_up_and_never_nothing():
    assert [TopK(0.1).kept(elements) for elements in (1, 10, 11, 1000)] == [1, 1, 2, 100]


def test_only_lossy_compressors_change_the_statistics():
    def with_compressor(compressor):
        return Strategy(("a/cpu:0",), (VariableStrategy("v", (AllReduce(0, "ring", compressor),)),))

    assert not with_compressor(None).changes_statistics
    assert not with_compressor(SufficientFactors()).changes_statistics
    assert all(with_compressor(lossy).changes_statistics for lossy in (Cast("bf16"), TopK(0.1), PowerSGD(1)))


def test_an_overlap_with_the_next_forward_pass_is_a_decision_and_its_absence_leaves_no_trace():
    plain = Strategy(("node0/cpu:0",), (VariableStrategy("w", (AllReduce(0),)),))
    overlapped = replace(plain, overlap_next_forward=True)
    assert "overlap_next_forward" not in plain.to_json()
    assert Strategy.from_json(overlapped.to_json()) == overlapped
    assert overlapped.digest != plain.digest
    assert not overlapped.changes_statistics


def test_rows_apart_are_a_decision_on_a_variable_and_rows_together_leave_no_trace():
    plain = Strategy(("node0/cpu:0",), (VariableStrategy("w", (AllReduce(0),)),))
    split = replace(plain, variables=(replace(plain.variables[0], rows_apart=True),))
    assert "rows_apart" not in plain.to_json()["variables"][0]
    assert Strategy.from_json(split.to_json()) == split
    assert (plain.rows_apart, split.rows_apart) == ((), ("w",))
    assert split.digest != plain.digest
    assert not split.changes_statistics
    renumbered = split.variables[0].replace_synchronizers({AllReduce(0): AllReduce(3)})
    assert renumbered == VariableStrategy("w", (AllReduce(3),), rows_apart=True)


def test_a_discipline_is_part_of_the_strategy_and_a_plain_one_leaves_no_trace():
    plain = Strategy(("node0/cpu:0",), (VariableStrategy("w", (AllReduce(0),)),))
    local = replace(plain, discipline=Discipline(Rhythm(8)))
    assert "discipline" not in plain.to_json()
    assert not plain.changes_statistics
    assert replace(plain, discipline=Discipline()) == plain
    assert local.to_json()["discipline"] == {"rhythm": {"steps": 8, "averages": "parameters"}}
    assert local.changes_statistics
    assert Strategy.from_json(local.to_json()) == local
    of_gradients = replace(plain, discipline=Discipline(Rhythm(8, averages="gradients")))
    assert len({plain.digest, local.digest, of_gradients.digest}) == 3
    assert Strategy.from_json(plain.to_json() | {"discipline": {"rhythm": {"steps": 8}}}) == local
    for rhythm in (
        Rhythm(threshold=0.1),
        Rhythm(8, block=BlockMomentum(0.9, nesterov=True)),
        Rhythm(8, elastic=Elastic(0.1)),
    ):
        with_it = replace(plain, discipline=Discipline(rhythm))
        assert Strategy.from_json(with_it.to_json()) == with_it
    cut_off = replace(plain, discipline=Discipline(waits=CutOff(1)))
    assert cut_off.to_json()["discipline"] == {"waits": {"first": 1, "late": "finish", "imputes": "truncated"}}
    assert Strategy.from_json(plain.to_json() | {"discipline": {"waits": {"first": 1}}}) == cut_off


@pytest.mark.parametrize(
    ("discipline", "message"),
    [
        ({"rhythm": {"steps": 0}}, r"^A rhythm's steps are at least 1, not 0\.$"),
        ({"rhythm": {"averages": "gradients"}}, r"^A rhythm has one of 'steps', a 'threshold' and a 'quantile'; give"),
        (
            {"rhythm": {"steps": 2, "threshold": 0.1}},
            r"^A rhythm has one of 'steps', a 'threshold' and a 'quantile'; give",
        ),
        ({"rhythm": {"threshold": -0.1}}, r"^A rhythm's threshold is a share of at least 0, not -0\.1\.$"),
        (
            {"rhythm": {"threshold": 0.1, "averages": "gradients"}},
            r"^With 'threshold' replicas average parameters, not gradients\.$",
        ),
        (
            {"rhythm": {"steps": 2, "averages": "losses"}},
            r"^A rhythm averages one of parameters, gradients, not 'losses'\.$",
        ),
        (
            {"rhythm": {"steps": 2, "averages": "gradients", "elastic": {"pull": 0.1}}},
            r"^With 'elastic' replicas average parameters, not gradients\.$",
        ),
        (
            {"rhythm": {"steps": 2, "elastic": {"pull": 0}}},
            r"^An elastic meeting's pull is over 0 and at most 1, not 0",
        ),
        ({"rhythm": {"steps": 2, "block": {"momentum": 1}}}, r"^Block momentum is at least 0 and under 1, not 1\.0\.$"),
        ({"rhythm": {"steps": 2, "block": {"momentum": 0.9, "rate": 3}}}, r"^The rate of block momentum is over 0 and"),
        (
            {"rythm": {"steps": 2}},
            r"^A discipline has the unknown field 'rythm'\. Known fields: rhythm, waits, f",
        ),
        ({"waits": {"first": 0}}, r"^A step waits for at least the first replica, not for 0\.$"),
        ({"waits": {"late": "stop"}}, r"^A cut-off has either 'first' or a 'policy'; give one of them\.$"),
        ({"waits": {"first": 1, "policy": "filter"}}, r"^A cut-off has either 'first' or a 'policy'; give one of"),
        (
            {"waits": {"policy": "guess"}},
            r"^A cut-off's policy is one of elfving, empirical, filter, bandit, gain, learned, not",
        ),
        ({"waits": {"first": 1, "imputes": "none"}}, r"^A cut-off imputes truncated or naive times, not 'none'\.$"),
        ({"fidelity": {"ratios": [], "steps": 1}}, r"^A fidelity has ratios over 0 and at most 1, not \[\]\.$"),
        ({"fidelity": {"ratios": [0.5, 2], "steps": 1}}, r"^A fidelity has ratios over 0 and at most 1, not \[0\.5, 2"),
        ({"fidelity": {"ratios": [0.5], "steps": 0}}, r"^Each ratio is kept for 1 step or more, not for 0\.$"),
        ({"loads": {"parts": [1, 0]}}, r"^Loads have a positive number for each replica, not \[1\.0, 0\.0\]\.$"),
        ({"loads": {"parts": [1, 65]}}, r"^The largest load is at most 64 times the smallest: \[1\.0, 65\.0\]\.$"),
        ({"waits": {"first": 1, "late": "go"}}, r"^A cut-off's 'late' is one of finish, stop, not 'go'\.$"),
        ({"waits": {"first": 1}, "rhythm": {"steps": 2}}, r"^A discipline has one of 'rhythm' and 'waits': replicas"),
        ([], r"^A strategy: 'discipline' must be dict, not \[\]\.$"),
    ],
)
def test_a_discipline_in_a_file_that_breaks_a_rule_is_refused(discipline: Any, message: str):
    document = Strategy(("node0/cpu:0",), ()).to_json() | {"discipline": discipline}
    with pytest.raises(SpecError, match=message):
        Strategy.from_json(document)
