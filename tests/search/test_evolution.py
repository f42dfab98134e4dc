"""Evolution: the strategies that children are bred from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosync.baselines import BASELINES
from autosync.search.evolution import EvolutionOptions, EvolutionSearch
from autosync.search.protocol import Proposal
from autosync.spec import Strategy
from search_spaces.default import SPACE
from tests.cases import bert_like_model, star_cluster
from tests.search.laws import timed, truth

MODEL, CLUSTER = bert_like_model(), star_cluster(3)
SPACE_HERE = SPACE.bind(MODEL, CLUSTER)
SERVER, RING = (BASELINES[name](MODEL, CLUSTER) for name in ("parameter_server", "all_reduce_25mb"))


def alike(first: Strategy, second: Strategy) -> int:
    """Return the number of variables with the same decision in both strategies."""
    return sum(left == right for left, right in zip(first.variables, second.variables, strict=True))


def child(seconds: dict[Strategy, float], seed: int) -> Strategy:
    """Return the first child of a search that was told these times, with all strategies in its tournament."""
    searcher = EvolutionSearch(SPACE_HERE, [], seed, EvolutionOptions(crossover_share=0.0))
    for strategy, taken in seconds.items():
        searcher.tell(replace(timed(SPACE_HERE, Proposal(strategy, "told"), truth()), step_seconds=(taken,)))
    (proposal,) = searcher.ask(1)
    assert proposal.label == "mutation"
    return proposal.strategy


@pytest.mark.parametrize(("faster", "slower"), [(SERVER, RING), (RING, SERVER)], ids=["server", "ring"])
def test_a_child_is_bred_from_the_faster_of_those_in_a_tournament(faster: Strategy, slower: Strategy) -> None:
    """The two have no decision in common, and a mutation changes few variables, or most: so the test asks for ten
    children.
    """
    assert alike(faster, slower) == 0
    children = [child({faster: 0.1, slower: 0.2}, seed) for seed in range(10)]
    assert sum(alike(strategy, faster) for strategy in children) > 3 * sum(
        alike(strategy, slower) for strategy in children
    )
