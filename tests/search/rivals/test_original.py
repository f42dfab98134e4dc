"""The original's search: its filter, its picks and its samples."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from autosync.baselines import BASELINES
from autosync.search.protocol import Proposal
from autosync.search.rivals import OriginalOptions, OriginalSearch
from autosync.search.rivals.independent_samples import MOST_BUCKETS, independent_sample
from autosync.spec import AllReduce, ClusterSpec, ModelSpec, ParameterServer, RuntimeRecord, Strategy
from search_spaces.bert import SPACE as BERT
from search_spaces.default import SPACE
from tests.cases import bert_like_model, mlp_model, star_cluster
from tests.search.laws import rough_simulator, timed, truth

HERE = SPACE.bind(mlp_model(), star_cluster(2))
BERT_HERE = BERT.bind(bert_like_model(1), star_cluster(4))


class CountsServed:
    """A simulator that predicts the share of a strategy's shards that is on servers."""

    def __init__(self) -> None:
        self.fits: list[int] = []

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> np.ndarray:
        del model, cluster
        return np.array([self.share(strategy) for strategy in strategies])

    def share(self, strategy: Strategy) -> float:
        kinds = [isinstance(shard, ParameterServer) for _, _, shard in strategy.shards()]
        return sum(kinds) / len(kinds)

    def fit(self, records: Sequence[RuntimeRecord]) -> None:
        self.fits.append(len(records))


def test_what_the_simulator_scores_badly_is_dropped() -> None:
    simulator = CountsServed()
    options = OriginalOptions(explored=60, picked=15, kept_share=0.3, diversity=0.0)
    search = OriginalSearch(HERE, [], 0, simulator, options)
    picked = [simulator.share(proposal.strategy) for proposal in search.ask(15)]
    rng = random.Random(1)
    usual = sorted(simulator.share(independent_sample(HERE, rng)) for _ in range(200))
    assert max(picked) <= usual[90]


def test_with_diversity_a_round_decides_variables_in_more_ways() -> None:
    def ways(diversity: float) -> int:
        options = OriginalOptions(explored=60, picked=10, kept_share=1.0, diversity=diversity)
        proposals = OriginalSearch(BERT_HERE, [], 0, CountsServed(), options).ask(10)
        return len(
            {
                (decision.variable, decision.partition, *(type(shard) for shard in decision.shards))
                for proposal in proposals
                for decision in proposal.strategy.variables
            }
        )

    assert ways(50.0) > ways(0.0)


def test_it_learns_between_rounds_and_not_within_them() -> None:
    simulator = CountsServed()
    search = OriginalSearch(HERE, [], 0, simulator, OriginalOptions(explored=20, picked=4))
    for number in range(9):
        (proposal,) = search.ask(1)
        search.tell(timed(HERE, proposal, truth(), number))
    assert simulator.fits == [4, 8]


def test_proposals_say_what_was_predicted() -> None:
    search = OriginalSearch(HERE, [], 0, rough_simulator(), OriginalOptions(explored=20, picked=4))
    (proposal,) = search.ask(1)
    predicted = np.exp(rough_simulator().predict(HERE.model, HERE.cluster, [proposal.strategy]))[0]
    assert proposal == Proposal(proposal.strategy, "original", float(predicted))


def test_independent_samples_lie_in_the_space_with_sparse_variables_on_servers() -> None:
    rng = random.Random(3)
    sparse = {variable.name for variable in BERT_HERE.model.variables if variable.sparse}
    for _ in range(30):
        strategy = independent_sample(BERT_HERE, rng)
        assert BERT_HERE.why_not(strategy) is None
        assert all(
            isinstance(s, ParameterServer) for decision, _, s in strategy.shards() if decision.variable in sparse
        )
        groups = {s.group for _, _, s in strategy.shards() if isinstance(s, AllReduce)}
        assert len(groups) <= MOST_BUCKETS


def test_independent_samples_balance_bytes_over_servers() -> None:
    rng = random.Random(4)
    for _ in range(10):
        strategy = independent_sample(BERT_HERE, rng)
        loads = dict.fromkeys(BERT_HERE.domains.devices, 0.0)
        largest = 0.0
        for domain in BERT_HERE.domains.each:
            decision = strategy.by_name[domain.variable.name]
            part = domain.gradient_bytes / len(decision.shards)
            for shard in decision.shards:
                if isinstance(shard, ParameterServer):
                    loads[shard.device] += part
                    largest = max(largest, part)
        assert max(loads.values()) - min(loads.values()) <= 2 * largest


def test_each_variable_is_decided_by_itself() -> None:
    """In 200 samples two kernels are on servers together about a quarter of the time; a shared style would make it a
    half.
    """
    rng = random.Random(5)
    together = 0
    for _ in range(200):
        strategy = independent_sample(HERE, rng)
        first, second = (strategy.by_name[f"dense_{index}/bias"].shards[0] for index in (0, 1))
        together += isinstance(first, ParameterServer) and isinstance(second, ParameterServer)
    assert 30 <= together <= 70


def test_a_space_of_baselines_is_searched_from_them() -> None:
    baselines = [(label, baseline(HERE.model, HERE.cluster)) for label, baseline in BASELINES.items()]
    search = OriginalSearch(HERE, baselines, 0, rough_simulator(), OriginalOptions(explored=20, picked=4))
    first = search.ask(1)[0]
    assert (first.label, first.purpose) == ("parameter_server", "baseline")
