"""The contract of searchers. To test a new searcher, add a line to `SEARCHERS`."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosync.baselines import BASELINES
from autosync.cost import AnalyticSimulator
from autosync.errors import SpecError
from autosync.search.evolution import EvolutionSearch
from autosync.search.guided.breeding import BreedingOptions
from autosync.search.guided.searcher import GuidedOptions, GuidedSearch
from autosync.search.protocol import FIRST_BASELINES, Proposal, Searcher, Weighing, run_search
from autosync.search.random_search import RandomSearch
from autosync.search.rivals import Encoding, Knobs, OneByOneSearch, OriginalOptions, OriginalSearch, PerVariable
from autosync.space import SearchSpace, Space
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy
from search_spaces.default import SPACE
from search_spaces.tiny import SPACE as TINY
from tests.cases import bert_like_model, mlp_model, star_cluster
from tests.cover import thorough
from tests.search.laws import rough_simulator, timed, truth

Baselines = list[tuple[str, Strategy]]
Maker = Callable[[SearchSpace, Baselines, int], Searcher]


class OneFitBehind:
    """The closed form as fitted by the previous call, like a simulator that is fitted in parallel with the trials."""

    def __init__(self) -> None:
        self._behind, self._newest = AnalyticSimulator(), AnalyticSimulator()
        self._fits = 0

    def predict(self, model: ModelSpec, cluster: ClusterSpec, strategies: Sequence[Strategy]) -> np.ndarray:
        return self._behind.predict(model, cluster, strategies)

    def fit(self, records: Sequence[RuntimeRecord], weights: Sequence[float] | None = None) -> None:
        assert weights is None
        self._behind, self._newest = self._newest, AnalyticSimulator()
        self._newest.fit(records)
        self._fits += 1
        if self._fits == 1:
            self._behind = self._newest


FEW = GuidedOptions(breeding=BreedingOptions(founders=30, generations=1, children=20, parents=8))


def tpe(space: SearchSpace, baselines: Baselines, seed: int, encoding: Encoding) -> Searcher:
    from autosync.search.rivals.tpe import TpeChooser  # only processes that need its library import it

    return OneByOneSearch(space, baselines, seed, TpeChooser(encoding))


def bayesian(space: SearchSpace, baselines: Baselines, seed: int, encoding: Encoding) -> Searcher:
    from autosync.search.rivals.gaussian_process import GaussianProcessChooser

    return OneByOneSearch(space, baselines, seed, GaussianProcessChooser(encoding))


SEARCHERS: dict[str, Maker] = {
    "random": RandomSearch,
    "evolution": EvolutionSearch,
    "guided by the closed form": lambda space, baselines, seed: GuidedSearch(
        space, baselines, seed, AnalyticSimulator(), FEW
    ),
    "guided by a simulator without state": lambda space, baselines, seed: GuidedSearch(
        space, baselines, seed, rough_simulator(), FEW
    ),
    "guided by a simulator one fit behind": lambda space, baselines, seed: GuidedSearch(
        space, baselines, seed, OneFitBehind(), FEW
    ),
    "the original": lambda space, baselines, seed: OriginalSearch(
        space, baselines, seed, AnalyticSimulator(), OriginalOptions(explored=20, picked=4)
    ),
    "TPE": lambda space, baselines, seed: tpe(space, baselines, seed, PerVariable(space)),
    "TPE on knobs": lambda space, baselines, seed: tpe(space, baselines, seed, Knobs(space)),
    "Bayesian optimization": lambda space, baselines, seed: bayesian(space, baselines, seed, PerVariable(space, 30)),
    "Bayesian optimization on knobs": lambda space, baselines, seed: bayesian(space, baselines, seed, Knobs(space, 30)),
}

QUICK = ("random", "evolution", "guided by the closed form", "the original", "TPE")
"""One searcher of every kind, for `make test`. Guided search asks any simulator in the same way, and Bayesian
optimization chooses proposals one by one, like TPE."""

MODEL, CLUSTER = mlp_model(), star_cluster(2)
GIVEN: Baselines = [(label, baseline(MODEL, CLUSTER)) for label, baseline in BASELINES.items()]
DISTINCT = len({strategy.digest for _, strategy in GIVEN})


def space_of(declared: Space = SPACE) -> SearchSpace:
    return declared.bind(MODEL, CLUSTER)


def record_of(proposal: Proposal, number: int = 0) -> RuntimeRecord:
    return timed(space_of(), proposal, truth(), number, noise=0.02)


def went_wrong(record: RuntimeRecord, outcome: str) -> RuntimeRecord:
    steps = record.step_seconds[:2] if outcome == "stopped" else ()
    return replace(record, outcome=outcome, reason="it went wrong", step_seconds=steps)


def digests(proposals: list[Proposal]) -> list[str]:
    return [proposal.strategy.digest for proposal in proposals]


def answer(proposal: Proposal) -> RuntimeRecord:
    """Return the outcome of a proposal, which does not depend on when it is timed; one strategy in seven fails."""
    record = record_of(proposal)
    return went_wrong(record, "failed") if int(proposal.strategy.digest, 16) % 7 == 0 else record


def search(make: Callable[[], Searcher], trials: int, lanes: int = 1, chance: random.Random | None = None) -> list[str]:
    """Return the digests of `trials` proposals, with up to `lanes` timed at once.

    `chance` decides how many proposals are asked for at once, the order of answers, and when the searcher is saved and
    another searcher restored. Without `chance`, proposals are asked for and answered one after another.
    """
    chance = chance or random.Random(0)
    searcher, found, under_way = make(), list[Proposal](), list[Proposal]()
    while True:
        free = min(lanes - len(under_way), trials - len(found))
        proposals = searcher.ask(chance.randint(1, free)) if free else []
        found += proposals
        under_way += proposals
        if proposals and chance.random() < 0.7:
            continue
        if not under_way:
            return digests(found)
        searcher.tell(answer(under_way.pop(chance.randrange(len(under_way)))))
        if lanes > 1 and chance.random() < 0.1:
            saved, searcher = searcher.state(), make()
            searcher.restore(json.loads(json.dumps(saved)))
            assert sorted(digests(searcher.pending())) == sorted(digests(under_way))


def print_searches(names: list[str]) -> None:
    """The code that a test runs in another process."""
    found = {name: search(lambda name=name: SEARCHERS[name](space_of(), GIVEN, 3), 26) for name in names}
    print(json.dumps(found))  # noqa: T201


@pytest.fixture(scope="module")
def of_another_process(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """The proposals of each requested searcher in a process with another hash seed."""
    users = [item for item in request.session.items if "of_another_process" in getattr(item, "fixturenames", ())]
    names = [user.callspec.params["name"] for user in users]  # type: ignore[attr-defined]
    code = f"from tests.contracts.test_searcher_contract import print_searches; print_searches({names})"
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    there = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": other},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(there.stdout)


def first_baselines(searcher: Searcher) -> int:
    """The number of baselines that come before all other proposals."""
    return FEW.first_baselines if isinstance(searcher, GuidedSearch) else DISTINCT


@pytest.fixture(params=[name if name in QUICK else thorough(name) for name in SEARCHERS])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(name: str) -> Maker:
    return SEARCHERS[name]


class TestSearcherContract:
    def test_baselines_come_first_and_once(self, make: Maker):
        searcher = make(space_of(), [*GIVEN, ("again", GIVEN[0][1])], 0)
        proposals = searcher.ask(DISTINCT)
        assert len(proposals) == first_baselines(searcher)
        assert isinstance(searcher, Weighing)
        proposals += searcher.ask_baselines(100)
        first: dict[str, str] = {}
        for label, strategy in GIVEN:
            first.setdefault(strategy.digest, label)
        found = [(proposal.strategy.digest, proposal.label) for proposal in proposals]
        if proposals[0].predicted_seconds is None:
            assert found == list(first.items())
        else:
            assert sorted(found) == sorted(first.items())
            assert proposals == sorted(proposals, key=lambda proposal: proposal.predicted_seconds or 0.0)
        records = run_search(searcher, record_of, 2 * DISTINCT)
        assert [record.purpose for record in records].count("baseline") == DISTINCT

    @pytest.mark.parametrize("trials", [4, 5, 7, 8, 12])
    def test_candidates_get_half_of_the_trials_after_the_first_baselines(self, make: Maker, trials: int):
        records = run_search(make(space_of(), GIVEN, 0), record_of, trials)
        purposes = [record.purpose for record in records]
        assert purposes[:FIRST_BASELINES] == ["baseline"] * FIRST_BASELINES
        assert 2 * purposes[FIRST_BASELINES:].count("search") >= trials - FIRST_BASELINES

    def test_every_proposal_but_a_baseline_lies_in_the_space(self, make: Maker):
        space = space_of()
        searcher = make(space, GIVEN, 1)
        records = run_search(searcher, record_of, 30)
        assert len(records) == 30
        own = [record.strategy for record in records if record.purpose == "search"]
        assert len(own) >= 16
        assert [space.why_not(strategy) for strategy in own] == [None] * len(own)

    def test_the_same_seed_gives_the_same_proposals(self, make: Maker):
        first, second = (search(lambda: make(space_of(), GIVEN, 5), 24) for _ in range(2))
        assert first == second

    def test_another_seed_gives_other_proposals(self, make: Maker):
        first, second = (search(lambda seed=seed: make(space_of(), GIVEN, seed), 24) for seed in (5, 6))
        same = first_baselines(make(space_of(), GIVEN, 0))
        assert first[:same] == second[:same]
        assert first != second

    def test_another_process_with_another_hash_seed_gives_the_same_proposals(
        self, make: Maker, name: str, of_another_process: dict[str, list[str]]
    ):
        assert of_another_process[name] == search(lambda: make(space_of(), GIVEN, 3), 26)

    @pytest.mark.quick("random", "evolution")
    @settings(
        max_examples=3, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(lanes=st.integers(2, 5), chance=st.randoms(use_true_random=False))
    def test_neither_the_concurrency_nor_the_order_of_answers_changes_a_proposal(
        self, make: Maker, lanes: int, chance: random.Random
    ):
        """Saving the searcher in the middle of a round and continuing with another one changes no proposal either."""
        one_by_one = search(lambda: make(space_of(), GIVEN, 7), 26)
        assert search(lambda: make(space_of(), GIVEN, 7), 26, lanes, chance) == one_by_one

    def test_asked_again_before_answers_are_in_it_does_not_repeat_itself(self, make: Maker):
        searcher = make(space_of(), GIVEN, 0)
        proposals = [proposal for count in (1, 4, 2, 7, 1, 9) for proposal in searcher.ask(count)]
        assert first_baselines(searcher) <= len(set(digests(proposals))) == len(proposals) <= 24
        assert digests(searcher.pending()) == digests(proposals)

    def test_it_gives_at_least_one_proposal_once_all_others_are_answered(self, make: Maker):
        searcher = make(space_of(), GIVEN, 0)
        for _ in range(6):
            proposals = searcher.ask(3)
            assert proposals
            for proposal in reversed(proposals):
                searcher.tell(record_of(proposal))

    @pytest.mark.parametrize("outcome", ["failed", thorough("timed_out"), "stopped"])
    def test_it_goes_on_when_every_trial_goes_wrong(self, make: Maker, outcome: str):
        searcher = make(space_of(), GIVEN, 0)
        records = run_search(searcher, lambda proposal: went_wrong(record_of(proposal), outcome), 20)
        assert len(records) == 20
        assert len({record.strategy.digest for record in records}) == 20

    def test_a_diverged_trial_leaves_a_state_that_json_can_say(self, make: Maker):
        searcher = make(space_of(), GIVEN, 0)
        (proposal,) = searcher.ask(1)
        searcher.tell(replace(went_wrong(record_of(proposal), "failed"), final_loss=float("nan")))
        json.dumps(searcher.state(), allow_nan=False)
        assert searcher.pending() == []

    def test_a_record_told_twice_counts_once(self, make: Maker):
        once, twice = make(space_of(), GIVEN, 0), make(space_of(), GIVEN, 0)
        for number in range(18):
            (proposal,), (same,) = once.ask(1), twice.ask(1)
            assert same == proposal
            record = record_of(proposal, number)
            once.tell(record)
            twice.tell(record)
            twice.tell(record)
        assert once.state() == twice.state()

    def test_a_strategy_told_unasked_is_learned_from_and_never_proposed(self, make: Maker):
        usual = run_search(make(space_of(), GIVEN, 2), record_of, 16)
        warm = make(space_of(), GIVEN, 2)
        for record in reversed(usual):
            warm.tell(record)
        later = run_search(warm, record_of, 10)
        assert len(later) == 10
        new = {record.strategy.digest for record in later}
        assert not new & {record.strategy.digest for record in usual}

    def test_a_strategy_measured_again_is_not_a_new_one(self, make: Maker):
        searcher = make(space_of(), GIVEN, 2)
        records = run_search(searcher, record_of, 12)
        for turn in range(3):
            searcher.tell(replace(records[0], purpose="remeasure", started_at=1000.0 + turn))
        later = run_search(searcher, record_of, 5)
        assert len(later) == 5
        new = {record.strategy.digest for record in later}
        assert not new & {record.strategy.digest for record in records}

    def test_records_of_another_model_are_passed_over(self, make: Maker):
        searcher = make(space_of(), GIVEN, 0)
        before = searcher.state()
        other = SPACE.bind(bert_like_model(1), CLUSTER)
        strategy = BASELINES["parameter_server"](other.model, CLUSTER)
        searcher.tell(timed(other, Proposal(strategy, "other"), truth()))
        assert searcher.state() == before

    @pytest.mark.parametrize("asked", [3, DISTINCT + 9, *map(thorough, (0, DISTINCT, DISTINCT + 3))])
    def test_saved_and_restored_it_continues_as_if_never_stopped(self, make: Maker, asked: int):
        searcher = make(space_of(), GIVEN, 4)
        run_search(searcher, record_of, asked)
        searcher.ask(2)  # pending when the search is stopped
        saved = json.loads(json.dumps(searcher.state(), allow_nan=False))
        restored = make(space_of(), GIVEN, 4)
        restored.restore(saved)
        assert restored.pending() == searcher.pending()
        assert restored.state() == searcher.state()
        assert [r.strategy.digest for r in run_search(restored, record_of, 12)] == [
            r.strategy.digest for r in run_search(searcher, record_of, 12)
        ]

    def test_a_state_is_restored_only_with_the_same_arguments(self, make: Maker):
        state = make(space_of(), GIVEN, 4).state()
        with pytest.raises(SpecError, match=r"its seed is 4, this searcher's is 5\. Pass the same arguments"):
            make(space_of(), GIVEN, 5).restore(state)
        with pytest.raises(SpecError, match=r"its space is 'default of model"):
            make(space_of(TINY), GIVEN, 4).restore(state)
        with pytest.raises(SpecError, match=r"its searcher is 'other'"):
            make(space_of(), GIVEN, 4).restore(state | {"searcher": "other"})

    def test_it_ends_when_a_tiny_space_is_used_up(self, make: Maker):
        space = space_of(TINY)
        assert space.size is not None
        assert 4 <= space.size <= 64
        searcher = make(space, [], 0)
        records = run_search(searcher, record_of, 10_000)
        assert len({record.strategy.digest for record in records}) == len(records) == space.size
        assert searcher.ask(3) == []
        assert searcher.pending() == []

    def test_no_more_are_given_than_are_left(self, make: Maker):
        space = space_of(TINY)
        assert space.size is not None
        assert 0 < len(make(space, [], 0).ask(10_000)) <= space.size

    def test_it_searches_a_space_without_baselines(self, make: Maker):
        assert len(run_search(make(space_of(), [], 0), record_of, 8)) == 8
