"""Repair: lanes that move, break, are given up and start as nodes leave and join."""

from __future__ import annotations

from autosync.spec import ClusterSpec, Node
from tests.cases import star_cluster
from trials.cluster.node_matching import addresses_of, seat_at
from trials.fleet.repair import LaneSeat, plan_repair

PAIR = star_cluster(2)
LIKE = PAIR.nodes[0]


def at(*addresses: str) -> ClusterSpec:
    return seat_at(PAIR, addresses)


def living(*addresses: str) -> dict[str, Node]:
    return dict.fromkeys(addresses, LIKE)


def test_while_all_nodes_live_nothing_is_to_do() -> None:
    plan = plan_repair([LaneSeat("one", at("a", "b"))], PAIR, living("a", "b", "c"), {"a", "b", "c"})
    assert (plan.moves, plan.broken, plan.given_up, plan.joins) == ({}, [], [], [])


def test_a_lane_that_lost_a_node_moves_to_a_spare_one() -> None:
    plan = plan_repair([LaneSeat("one", at("a", "b"))], PAIR, living("a", "c"), {"a", "c"})
    assert {lane: addresses_of(goal) for lane, goal in plan.moves.items()} == {"one": ("a", "c")}


def test_without_a_spare_node_the_lane_is_broken() -> None:
    plan = plan_repair([LaneSeat("one", at("a", "b"))], PAIR, living("a"), {"a"})
    assert (plan.moves, plan.broken) == ({}, ["one"])


def test_nodes_that_may_not_be_used_are_neither_spare_nor_a_new_lane() -> None:
    plan = plan_repair([LaneSeat("one", at("a", "b"))], PAIR, living("a", "c", "d", "e"), {"a"})
    assert (plan.moves, plan.broken, plan.joins) == ({}, ["one"], [])


def test_two_lanes_that_lost_a_node_each_are_made_one() -> None:
    lanes = [LaneSeat("one", at("a", "b")), LaneSeat("two", at("c", "d"))]
    plan = plan_repair(lanes, PAIR, living("a", "c"), {"a", "c"})
    assert {lane: addresses_of(goal) for lane, goal in plan.moves.items()} == {"one": ("a", "c")}
    assert (plan.given_up, plan.broken, plan.joins) == (["two"], [], [])


def test_a_lane_with_a_trial_under_way_is_let_be_and_gives_nothing() -> None:
    lanes = [LaneSeat("one", at("a", "b")), LaneSeat("two", at("c", "d"), idle=False)]
    plan = plan_repair(lanes, PAIR, living("a", "c"), {"a", "c"})
    assert (plan.moves, plan.broken, plan.given_up) == ({}, ["one"], [])


def test_nodes_that_join_make_as_many_lanes_as_they_are_enough_for() -> None:
    everything = living("a", "b", "c", "d", "e", "f", "g")
    plan = plan_repair([LaneSeat("one", at("a", "b"))], PAIR, everything, everything)
    assert plan.joins == [["c", "d"], ["e", "f"]]


def test_a_spare_node_mends_a_lane_before_it_makes_a_new_one() -> None:
    plan = plan_repair([LaneSeat("one", at("a", "b"))], PAIR, living("a", "c", "d"), {"a", "c", "d"})
    assert addresses_of(plan.moves["one"]) == ("a", "c")
    assert plan.joins == []


def test_a_machine_that_is_not_like_the_one_that_left_does_not_take_its_place() -> None:
    machines = living("a") | {"big": Node("big", "big", cores=64.0, gpus=8)}
    assert plan_repair([LaneSeat("one", at("a", "b"))], PAIR, machines, machines).broken == ["one"]
