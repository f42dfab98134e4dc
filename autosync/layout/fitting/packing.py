"""The fastest packing of trees, by a linear program with column generation.

Each byte of a bucket is summed along a tree into some node, its root, and its mean goes out from the root along another
tree. Both trees are free, and so are the shares of roots and trees. An arc from u to v loads all links of the route.
With f_t the share of tree t, x_r the share of root r, s_l the seconds a byte takes on link l and n_l(t) the number of
times t crosses l:

    least T:  sum_t s_l n_l(t) f_t <= T for each link,  sum of f_t into r = x_r = sum of f_t out of r,  sum_r x_r = 1.

The dual program has prices p_l with sum p_l = 1. At any prices, T is at least the cost of the cheapest tree into some r
plus the cheapest tree out of r. So each round of column generation (Dantzig and Wolfe 1960) yields trees that are cheap
at the current prices, and a lower bound on T. Blink builds its schedules from packings of trees (Wang et al. 2020).

T is the time of links that never wait. If a bucket goes in K pieces, one round apart (`pieces.py`), rounds wait for one
another. Then the program minimizes the sum, over rounds, of the time of the round's busiest link, which is also linear.
Among packings that take equally long, nodes should send and receive equal amounts: the busiest node counts with `EVEN`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

from autosync.layout.fitting.branching import Costs, least_branching
from autosync.layout.fitting.network import LinkNetwork, Pair
from autosync.layout.fitting.tree import Direction, Tree
from autosync.layout.fitting.windows import windows_of

CLOSE = 2e-3
"""Column generation ends when the packing exceeds its lower bound by at most this share."""

EVEN = 0.02
"""The weight of the busiest node's bytes, timed on the fastest link, relative to the time of links."""

MOST_ROUNDS = 60
"""The maximum number of rounds of column generation; a few are usually enough."""

LEAST_SHARE = 1e-9


@dataclass(frozen=True)
class Packing:
    """Trees with their shares of a bucket; the shares into and out of a root are equal. A byte takes `seconds`."""

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
    """The linear program of all trees so far on a network, in order."""

    network: LinkNetwork
    trees: dict[Tree, None] = field(default_factory=dict)
    bound_seconds: float = 0.0

    def extend(self, pricing: Pricing) -> None:
        """Add trees of `pricing` until no tree improves the packing, or the packing is at its lower bound."""
        nodes = range(len(self.network))
        for _ in range(MOST_ROUNDS):
            packing, prices = self._solve(None)
            costs = [[self._cost(prices, u, v) if u != v else 0.0 for v in nodes] for u in nodes]
            pairs = [(pricing(costs, root, "in"), pricing(costs, root, "out")) for root in nodes]
            least = min(sum(costs[u][v] for tree in pair for u, v in tree.arcs) for pair in pairs)
            if pricing is cheapest:  # the bound holds for the cheapest trees only
                self.bound_seconds = max(self.bound_seconds, least / sum(prices))
            fresh = [tree for pair in pairs for tree in pair if tree not in self.trees]
            if packing.seconds <= (1 + CLOSE) * least / sum(prices) or not fresh:
                break
            self.trees |= dict.fromkeys(fresh)

    def packing(self, pieces: int | None = None) -> Packing:
        """The fastest packing of all trees, for a bucket in `pieces` pieces; None: for links that never wait."""
        return self._solve(pieces)[0]

    @property
    def up(self) -> int:
        """The number of rounds of the highest tree into a root."""
        return max(len(tree.rounds) for tree in self.trees if tree.direction == "in")

    def _cost(self, prices: Sequence[float], u: int, v: int) -> float:
        return sum(prices[link] * self.network.seconds[link] for link in self.network.routes[u, v])

    def _solve(self, pieces: int | None) -> tuple[Packing, list[float]]:
        """Solve the program. Return the fastest packing, and the prices of all links, window by window."""
        from scipy.optimize import linprog  # SciPy loads slowly, and few callers need it
        from scipy.sparse import coo_array

        trees, roots, links, up = list(self.trees), len(self.network), len(self.network.seconds), self.up
        windows = windows_of(up + max(len(tree.rounds) for tree in trees if tree.direction == "out"), pieces)
        unit = min(self.network.seconds)
        # The columns: the time of each window's busiest link, in units of a byte's seconds on the fastest link; the
        # bytes of the busiest node; the shares of roots; the shares of trees.
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

        solution = linprog(
            [*(window.share for window in windows), 0.0 if pieces is None else EVEN, *[0.0] * (columns - of_roots)],
            A_ub=matrix(loads, of_nodes + roots),
            b_ub=[0.0] * (of_nodes + roots),
            A_eq=matrix(equal, 2 * roots + 1),
            b_eq=[0.0] * (2 * roots) + [1.0],
            method="highs-ds",
        )
        assert solution.status == 0, solution.message
        shares = zip(trees, map(float, solution.x[of_trees:]), strict=True)
        kept = tuple((tree, share) for tree, share in shares if share > LEAST_SHARE)
        busiest_links = zip(windows, solution.x, strict=False)
        seconds = sum(window.share * float(busiest) for window, busiest in busiest_links) * unit
        return Packing(kept, seconds), [-float(price) for price in solution.ineqlin.marginals[:of_nodes]]


def packer_of(network: LinkNetwork, trees: Iterable[Tree]) -> Packer:
    """The linear program of `trees` on `network`."""
    return Packer(network, dict.fromkeys(trees))
