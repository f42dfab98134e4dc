"""The packing of trees that takes least: a linear program, whose trees are made as they are needed.

Each byte of a bucket is summed along a tree into some node, its root, and its mean goes out from there along another.
Both trees are free, and so are the shares of roots and trees; an arc from u to v loads all links of the route. With f_t
the share of tree t, x_r that of root r, s_l the seconds a byte takes on link l and n_l(t) how often t crosses l:

    least T:  sum_t s_l n_l(t) f_t <= T for each link,  sum of f_t into r = x_r = sum of f_t out of r,  sum_r x_r = 1.

Its dual has prices p_l, sum p_l = 1, and says that T is at least the cheapest tree into some r and the cheapest out of
it, at any prices. So each round of column generation (Dantzig and Wolfe 1960) finds trees that are cheap at the present
prices, and a bound on T. Blink makes its schedules of packings of trees (Wang et al. 2020).

T is what links take that never wait. Where a bucket goes in K pieces, a round apart (`pieces.py`), rounds wait for one
another, and what is least is the sum, over rounds, of what the busiest link of each takes: as linear. Of packings that
take as much, the one is best in which nodes send and receive as much as others: `EVEN` of what the busiest does counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from autosync.layout.fitting.branching import Costs, least_branching
from autosync.layout.fitting.network import Network, Pair
from autosync.layout.fitting.tree import Direction, Tree
from autosync.layout.fitting.windows import windows_of

CLOSE = 2e-3
"""Trees are made until the packing is so near its bound, as a share of it."""

EVEN = 0.02
"""The weight of the bytes of the busiest node, as if all went over the fastest link, beside what links take."""

MOST_ROUNDS = 60
"""The most rounds of column generation; it takes a few."""

LEAST_SHARE = 1e-9


@dataclass(frozen=True)
class Packing:
    """Trees with their shares of a bucket: as much goes into a root as out of it. A byte takes `seconds`."""

    shares: tuple[tuple[Tree, float], ...]
    seconds: float


Pricing: TypeAlias = Callable[[Costs, int, Direction], Tree]
"""A cheap tree into or out of a root."""


def cheapest(costs: Costs, root: int, direction: Direction) -> Tree:
    """The cheapest of all trees."""
    nodes = range(len(costs))
    ways = costs if direction == "out" else [[costs[v][u] for v in nodes] for u in nodes]
    return Tree.of(root, direction, least_branching(ways, root))


@final
@dataclass
class Packer:
    """The linear program of the trees that were met so far on a network, in order."""

    network: Network
    trees: dict[Tree, None] = field(default_factory=dict)
    bound_seconds: float = 0.0

    def extend(self, pricing: Pricing) -> None:
        """Add trees of `pricing` until there is none that makes the packing better, or it is at its bound."""
        nodes = range(len(self.network))
        for _ in range(MOST_ROUNDS):
            packing, prices = self._solved(None)
            costs = [[self._cost(prices, u, v) if u != v else 0.0 for v in nodes] for u in nodes]
            made = [(pricing(costs, root, "in"), pricing(costs, root, "out")) for root in nodes]
            least = min(sum(costs[u][v] for tree in both for u, v in tree.arcs) for both in made)
            if pricing is cheapest:  # the bound holds for the cheapest trees only
                self.bound_seconds = max(self.bound_seconds, least / sum(prices))
            fresh = [tree for both in made for tree in both if tree not in self.trees]
            if packing.seconds <= (1 + CLOSE) * least / sum(prices) or not fresh:
                break
            self.trees |= dict.fromkeys(fresh)

    def packing(self, pieces: int | None = None) -> Packing:
        """The least packing of all trees: of links that never wait, or where a bucket goes in so many pieces."""
        return self._solved(pieces)[0]

    @property
    def up(self) -> int:
        """Rounds of the highest tree into a root."""
        return max(len(tree.rounds) for tree in self.trees if tree.direction == "in")

    def _cost(self, prices: Sequence[float], u: int, v: int) -> float:
        return sum(prices[link] * self.network.seconds[link] for link in self.network.routes[u, v])

    def _solved(self, pieces: int | None) -> tuple[Packing, list[float]]:
        """The least packing, and the links' prices, of each window in turn."""
        from scipy.optimize import linprog  # they take a while to load, and few need them
        from scipy.sparse import coo_array

        trees, roots, links, up = list(self.trees), len(self.network), len(self.network.seconds), self.up
        windows = windows_of(up + max(len(tree.rounds) for tree in trees if tree.direction == "out"), pieces)
        unit = min(self.network.seconds)
        # Columns are what each window's busiest link takes, in seconds a byte on the fastest link; the bytes of the
        # busiest node; roots; trees.
        of_roots, of_nodes = len(windows) + 1, len(windows) * links
        of_trees = of_roots + roots
        loads = defaultdict[Pair, float](float, {(row, row // links): -1.0 for row in range(of_nodes)})
        loads |= {(of_nodes + node, len(windows)): -1.0 for node in range(roots)}
        equal = {(2 * roots, of_roots + root): 1.0 for root in range(roots)}
        equal |= {(row, of_roots + row % roots): -1.0 for row in range(2 * roots)}
        for column, tree in enumerate(trees, of_trees):
            equal[tree.root + (roots if tree.direction == "out" else 0), column] = 1.0
            for number, arcs in enumerate(tree.rounds, up if tree.direction == "out" else up - len(tree.rounds)):
                at = [place for place, window in enumerate(windows) if window.begin <= number < window.end]
                for node in (node for arc in arcs for node in arc):
                    loads[of_nodes + node, column] += 1.0
                for link in (link for arc in arcs for link in self.network.routes[arc]):
                    for place in at:
                        loads[place * links + link, column] += self.network.seconds[link] / unit
        columns = of_trees + len(trees)

        def matrix(entries: dict[Pair, float], rows: int) -> object:
            places = tuple(zip(*entries, strict=True))
            return coo_array((list(entries.values()), places), shape=(rows, columns)).tocsc()

        found = linprog(
            [*(window.share for window in windows), 0.0 if pieces is None else EVEN, *[0.0] * (columns - of_roots)],
            A_ub=matrix(loads, of_nodes + roots),
            b_ub=[0.0] * (of_nodes + roots),
            A_eq=matrix(equal, 2 * roots + 1),
            b_eq=[0.0] * (2 * roots) + [1.0],
            method="highs-ds",
        )
        assert found.status == 0, found.message
        shares = zip(trees, map(float, found.x[of_trees:]), strict=True)
        kept = tuple((tree, share) for tree, share in shares if share > LEAST_SHARE)
        seconds = sum(window.share * float(busiest) for window, busiest in zip(windows, found.x, strict=False)) * unit
        return Packing(kept, seconds), [-float(price) for price in found.ineqlin.marginals[:of_nodes]]


def packer_of(network: Network, trees: Iterable[Tree]) -> Packer:
    """The linear program of these trees."""
    return Packer(network, dict.fromkeys(trees))
