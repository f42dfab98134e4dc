"""Least branchings are the cheapest among all trees."""

from __future__ import annotations

import itertools
import random

import pytest

from autosync.layout.fitting.branching import least_branching


def _is_tree(parents: dict[int, int], root: int) -> bool:
    for node in parents:
        seen = set[int]()
        while node != root:
            if node in seen:
                return False
            seen.add(node)
            node = parents[node]
    return True


def _cost(costs: list[list[float]], parents: dict[int, int]) -> float:
    return sum(costs[parent][child] for child, parent in parents.items())


@pytest.mark.parametrize("count", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(12))
def test_no_tree_is_cheaper(count: int, seed: int) -> None:
    rng = random.Random(seed)
    costs = [[rng.choice([0.0, 1.0, rng.random()]) for _ in range(count)] for _ in range(count)]
    for root in range(count):
        found = least_branching(costs, root)
        others = [node for node in range(count) if node != root]
        assert sorted(found) == others
        assert _is_tree(found, root)
        trees = (dict(zip(others, choice, strict=True)) for choice in itertools.product(range(count), repeat=count - 1))
        assert _cost(costs, found) == pytest.approx(min(_cost(costs, tree) for tree in trees if _is_tree(tree, root)))


def test_cycles_inside_of_cycles_are_broken_where_it_costs_least() -> None:
    far, near = 10.0, 1.0
    costs = [[far] * 5 for _ in range(5)]
    costs[1][2] = costs[2][1] = 0.0
    costs[3][4] = costs[4][3] = 0.0
    costs[2][3] = costs[4][1] = near
    costs[0][3] = 5.0
    assert least_branching(costs, 0) == {1: 4, 2: 1, 3: 0, 4: 3}
