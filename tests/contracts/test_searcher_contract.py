"""What every searcher promises. A new one joins by one line in `SEARCHERS`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator
from autosync.errors import SpecError
from autosync.search import (
    BreedingOptions,
    EvolutionSearch,
    GuidedOptions,
    GuidedSearch,
    Proposal,
    RandomSearch,
    Searcher,
    run_search,
)
from autosync.space import SearchSpace, Space
from autosync.spec import RuntimeRecord, Strategy
from search_spaces.default import SPACE
from search_spaces.tiny import SPACE as TINY
from tests.cases import bert_like_model, mlp_model, star_cluster
from tests.search.laws import rough_simulator, timed, truth

Seeds = list[tuple[str, Strategy]]
Maker = Callable[[SearchSpace, Seeds, int], Searcher]

FEW = GuidedOptions(breeding=BreedingOptions(founders=30, generations=1, children=20, parents=8))

SEARCHERS: dict[str, Maker] = {
    "random": RandomSearch,
    "evolution": EvolutionSearch,
    "guided by the closed form": lambda space, seeds, seed: GuidedSearch(space, seeds, seed, AnalyticSimulator(), FEW),
    "guided by a simulator without state": lambda space, seeds, seed: GuidedSearch(
        space, seeds, seed, rough_simulator(), FEW
    ),
}

MODEL, CLUSTER = mlp_model(), star_cluster(2)
SEEDS: Seeds = [(label, baseline(MODEL, CLUSTER)) for label, baseline in BASELINES.items()]
DISTINCT_SEEDS = len({strategy.digest for _, strategy in SEEDS})


def space_of(declared: Space = SPACE) -> SearchSpace:
    return declared.bind(MODEL, CLUSTER)


def record_of(proposal: Proposal, number: int = 0) -> RuntimeRecord:
    return timed(space_of(), proposal, truth(), number, noise=0.02)


def went_wrong(record: RuntimeRecord, outcome: str) -> RuntimeRecord:
    steps = record.step_seconds[:2] if outcome == "stopped" else ()
    return replace(record, outcome=outcome, reason="it went wrong", step_seconds=steps)


def digests(proposals: list[Proposal]) -> list[str]:
    return [proposal.strategy.digest for proposal in proposals]


def search(searcher: Searcher, trials: int) -> list[str]:
    """Digests of `trials` proposals, asked one or three at a time, told late, with a failure now and then."""
    found: list[str] = []
    waiting: list[Proposal] = []
    while len(found) < trials:
        proposals = searcher.ask(1 + 2 * (len(found) % 4 == 0))
        if not proposals:
            break
        found += digests(proposals)
        waiting += proposals
        while len(waiting) > 2:
            record = record_of(waiting.pop(0), len(found))
            searcher.tell(went_wrong(record, "failed") if len(found) % 5 == 0 else record)
    return found


def print_search(name: str) -> None:
    """What the test of another process runs there."""
    print(json.dumps(search(SEARCHERS[name](space_of(), SEEDS, 3), 26)))  # noqa: T201


@pytest.fixture(params=SEARCHERS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(name: str) -> Maker:
    return SEARCHERS[name]


class TestSearcherContract:
    def test_seeds_come_first_once_and_in_order(self, make: Maker):
        searcher = make(space_of(), [*SEEDS, ("again", SEEDS[0][1])], 0)
        proposals = searcher.ask(DISTINCT_SEEDS) + searcher.ask(3)
        first: dict[str, str] = {}
        for label, strategy in SEEDS:
            first.setdefault(strategy.digest, label)
        assert [(each.strategy.digest, each.label) for each in proposals[:DISTINCT_SEEDS]] == list(first.items())
        assert len(set(digests(proposals))) == len(proposals) == DISTINCT_SEEDS + 3

    def test_every_proposal_but_a_seed_lies_in_the_space(self, make: Maker):
        space = space_of()
        searcher = make(space, SEEDS, 1)
        records = run_search(searcher, record_of, 30)
        assert len(records) == 30
        labels = {label for label, _ in SEEDS}
        own = [record.strategy for record in records if record.label not in labels]
        assert len(own) >= 20
        assert [space.why_not(strategy) for strategy in own] == [None] * len(own)

    def test_the_same_seed_gives_the_same_proposals(self, make: Maker):
        first, second = (search(make(space_of(), SEEDS, 5), 24) for _ in range(2))
        assert first == second

    def test_another_seed_gives_other_proposals(self, make: Maker):
        first, second = (search(make(space_of(), SEEDS, seed), 24) for seed in (5, 6))
        assert first[: DISTINCT_SEEDS - 2] == second[: DISTINCT_SEEDS - 2]
        assert first != second

    def test_another_process_with_another_hash_seed_gives_the_same_proposals(self, make: Maker, name: str):
        here = search(make(space_of(), SEEDS, 3), 26)
        code = f"from tests.contracts.test_searcher_contract import print_search; print_search({name!r})"
        for hash_seed in ("1", "2"):
            there = subprocess.run(
                [sys.executable, "-c", code],
                env=os.environ | {"PYTHONHASHSEED": hash_seed},
                capture_output=True,
                text=True,
                check=True,
            )
            assert json.loads(there.stdout) == here

    def test_asked_again_before_answers_are_in_it_does_not_repeat_itself(self, make: Maker):
        searcher = make(space_of(), SEEDS, 0)
        proposals = [proposal for count in (1, 4, 2, 7, 1, 9) for proposal in searcher.ask(count)]
        assert len(set(digests(proposals))) == len(proposals) == 24
        assert digests(searcher.pending()) == digests(proposals)

    @pytest.mark.parametrize("outcome", ["failed", "timed_out", "stopped"])
    def test_it_goes_on_when_every_trial_goes_wrong(self, make: Maker, outcome: str):
        searcher = make(space_of(), SEEDS, 0)
        records = run_search(searcher, lambda proposal: went_wrong(record_of(proposal), outcome), 20)
        assert len({record.strategy.digest for record in records}) == 20

    def test_a_diverged_trial_leaves_a_state_that_json_can_say(self, make: Maker):
        searcher = make(space_of(), SEEDS, 0)
        (proposal,) = searcher.ask(1)
        searcher.tell(replace(went_wrong(record_of(proposal), "failed"), final_loss=float("nan")))
        json.dumps(searcher.state(), allow_nan=False)
        assert searcher.pending() == []

    def test_a_record_told_twice_counts_once(self, make: Maker):
        once, twice = make(space_of(), SEEDS, 0), make(space_of(), SEEDS, 0)
        for number in range(18):
            (proposal,), (same,) = once.ask(1), twice.ask(1)
            assert same == proposal
            record = record_of(proposal, number)
            once.tell(record)
            twice.tell(record)
            twice.tell(record)
        assert once.state() == twice.state()

    def test_a_strategy_told_unasked_is_learned_from_and_never_proposed(self, make: Maker):
        usual = run_search(make(space_of(), SEEDS, 2), record_of, 16)
        warm = make(space_of(), SEEDS, 2)
        for record in reversed(usual):
            warm.tell(record)
        later = run_search(warm, record_of, 10)
        assert len(later) == 10
        assert not {record.strategy.digest for record in usual} & {record.strategy.digest for record in later}

    def test_a_strategy_measured_again_is_not_a_new_one(self, make: Maker):
        searcher = make(space_of(), SEEDS, 2)
        records = run_search(searcher, record_of, 12)
        for turn in range(3):
            searcher.tell(replace(records[0], purpose="remeasure", started_at=1000.0 + turn))
        assert len(run_search(searcher, record_of, 5)) == 5

    def test_records_of_another_model_are_passed_over(self, make: Maker):
        searcher = make(space_of(), SEEDS, 0)
        before = searcher.state()
        other = SPACE.bind(bert_like_model(1), CLUSTER)
        strategy = BASELINES["parameter_server"](other.model, CLUSTER)
        searcher.tell(timed(other, Proposal(strategy, "other"), truth()))
        assert searcher.state() == before

    @pytest.mark.parametrize("asked", [0, 3, DISTINCT_SEEDS, DISTINCT_SEEDS + 3, DISTINCT_SEEDS + 9])
    def test_saved_and_restored_it_continues_as_if_never_stopped(self, make: Maker, asked: int):
        searcher = make(space_of(), SEEDS, 4)
        run_search(searcher, record_of, asked)
        searcher.ask(2)  # pending when it is stopped
        saved = json.loads(json.dumps(searcher.state(), allow_nan=False))
        restored = make(space_of(), SEEDS, 4)
        restored.restore(saved)
        assert restored.pending() == searcher.pending()
        assert restored.state() == searcher.state()
        assert [r.strategy.digest for r in run_search(restored, record_of, 12)] == [
            r.strategy.digest for r in run_search(searcher, record_of, 12)
        ]

    def test_a_state_is_restored_only_with_the_same_arguments(self, make: Maker):
        state = make(space_of(), SEEDS, 4).state()
        with pytest.raises(SpecError, match=r"its seed is 4, this one's is 5\. Give the same arguments"):
            make(space_of(), SEEDS, 5).restore(state)
        with pytest.raises(SpecError, match=r"its space is 'default of model"):
            make(space_of(TINY), SEEDS, 4).restore(state)
        with pytest.raises(SpecError, match=r"its searcher is 'other'"):
            make(space_of(), SEEDS, 4).restore(state | {"searcher": "other"})

    def test_it_ends_when_a_tiny_space_is_used_up(self, make: Maker):
        space = space_of(TINY)
        assert space.size is not None
        assert 4 <= space.size <= 64
        searcher = make(space, [], 0)
        records = run_search(searcher, record_of, 10_000)
        assert len({record.strategy.digest for record in records}) == len(records) == space.size
        assert searcher.ask(3) == []

    def test_fewer_are_given_when_fewer_are_left(self, make: Maker):
        space = space_of(TINY)
        assert len(make(space, [], 0).ask(10_000)) == space.size

    def test_it_searches_a_space_without_seeds(self, make: Maker):
        assert len(run_search(make(space_of(), [], 0), record_of, 8)) == 8
