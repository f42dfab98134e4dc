"""The loop times proposals, stores records before it tells them, and resumes pending proposals."""

from __future__ import annotations

from autosync.baselines import BASELINES
from autosync.search.protocol import run_search
from autosync.search.random_search import RandomSearch
from search_spaces.default import SPACE
from tests.cases import mlp_model, star_cluster
from tests.search.laws import timed, truth

MODEL, CLUSTER = mlp_model(), star_cluster(2)
SPACE_HERE = SPACE.bind(MODEL, CLUSTER)
GIVEN = [(label, baseline(MODEL, CLUSTER)) for label, baseline in BASELINES.items()]


def test_a_record_is_stored_before_the_searcher_learns_of_it():
    searcher = RandomSearch(SPACE_HERE, GIVEN, 0)
    stored = []

    def store(record):
        assert [proposal.strategy for proposal in searcher.pending()] == [record.strategy]
        stored.append(record)

    records = run_search(searcher, lambda proposal: timed(SPACE_HERE, proposal, truth()), 12, store)
    assert stored == records
    assert len(records) == 12
    assert searcher.pending() == []


def test_what_was_pending_when_a_search_stopped_comes_first():
    searcher = RandomSearch(SPACE_HERE, GIVEN, 0)
    pending = searcher.ask(3)
    records = run_search(searcher, lambda proposal: timed(SPACE_HERE, proposal, truth()), 5)
    assert [record.strategy for record in records[:3]] == [proposal.strategy for proposal in pending]
    assert searcher.pending() == []
