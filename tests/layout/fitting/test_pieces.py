"""Rounds of different pieces overlap, and their estimated cost equals the cost of all moves."""

from __future__ import annotations

from collections import Counter

import pytest

from autosync.layout.all_reduce import layout_of
from autosync.layout.fitting.pieces import in_pieces
from autosync.layout.fitting.schedule_cost import CostEstimator
from autosync.layout.fitting.windows import windows_of
from autosync.layout.moves import ELEMENTS, Move, Moves, exchange_of
from autosync.layout.topology import Topology
from autosync.spec import ClusterSpec
from tests.layout.carried_out import carried_out
from tests.layout.fitting.shapes import SHAPES, everyone, shaped


def _there_and_back(_: Topology, elements: int, __: int) -> Moves:
    return Moves.there_and_back([[Move(1, 0, (0, elements))], [Move(0, 2, (0, elements))]])


def test_each_piece_is_a_round_behind_the_one_before_it() -> None:
    moves = in_pieces(_there_and_back, 3, everyone(shaped(3)), 9)
    spans = [{(source, target): span for source, target, span in stage} for stage in moves.stages]
    assert spans == [
        {(1, 0): (0, 3)},
        {(1, 0): (3, 6), (0, 2): (0, 3)},
        {(1, 0): (6, 9), (0, 2): (3, 6), (2, 0): (0, 3)},
        {(0, 2): (6, 9), (2, 0): (3, 6), (0, 1): (0, 3)},
        {(2, 0): (6, 9), (0, 1): (3, 6)},
        {(0, 1): (6, 9)},
    ]
    assert moves.cuts == (3, 6)
    assert len(exchange_of(lambda *_: moves, everyone(shaped(3)), 0).push) == 6


@pytest.mark.parametrize("elements", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("pieces", [1, 2, 5, 12])
@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "tree", "rabenseifner"])
def test_all_get_the_mean_of_what_goes_in_pieces(algorithm: str, pieces: int, elements: int) -> None:
    topology, moves_of = everyone(shaped(2, 2, 2)), layout_of(algorithm).moves
    assert moves_of is not None
    of_members = carried_out(in_pieces(moves_of, pieces, topology, elements), 6, elements)
    for means in zip(*of_members, strict=True):
        assert means[0] is not None
        assert means[0].summed == Counter(range(6))
        assert all(mean == means[0] for mean in means)


@pytest.mark.parametrize("pieces", [1, 2, 4, 12])
@pytest.mark.parametrize("algorithm", ["halving_doubling", "tree", "hierarchical"])
@pytest.mark.parametrize("cluster", [SHAPES["three racks of two"], SHAPES["unlike links"]], ids=["racks", "unlike"])
def test_pieces_are_judged_by_one_of_them(cluster: ClusterSpec, algorithm: str, pieces: int) -> None:
    topology, moves_of = everyone(cluster), layout_of(algorithm).moves
    assert moves_of is not None
    judge = CostEstimator(topology, {})
    (by_one,) = judge.judged(moves_of(topology, ELEMENTS, 0), (pieces,))
    (by_all,) = judge.judged(in_pieces(moves_of, pieces, topology, ELEMENTS))
    for name in ("waiting", "busy", "likely", "bucket_seconds", "messages"):
        assert getattr(by_one, name) == pytest.approx(getattr(by_all, name))


@pytest.mark.parametrize("pieces", [1, 2, 3, 7])
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_every_round_of_every_piece_is_in_one_window(rounds: int, pieces: int) -> None:
    windows = windows_of(rounds, pieces)
    assert sum(window.times for window in windows) == pieces + rounds - 1
    assert sum(window.times * (window.end - window.begin) for window in windows) == pieces * rounds
    assert all(window.share == pytest.approx(window.times / pieces) for window in windows)


def test_more_pieces_wait_less_and_cost_more_messages() -> None:
    topology, moves_of = everyone(SHAPES["two racks of two"]), layout_of("rabenseifner").moves
    assert moves_of is not None
    found = CostEstimator(topology, {}).judged(moves_of(topology, ELEMENTS, 0), (1, 2, 4, 8, 16))
    assert [cost.waiting for cost in found] == sorted((cost.waiting for cost in found), reverse=True)
    assert [cost.messages for cost in found] == [16 * pieces for pieces in (1, 2, 4, 8, 16)]
    assert found[-1].waiting > found[-1].busy == pytest.approx(found[0].busy)
