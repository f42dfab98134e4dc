"""Searchers by name: each can be made, stores its name in its state, and reports a missing library."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from autosync.cost import AnalyticSimulator
from autosync.errors import AutosyncError
from autosync.search import registry
from autosync.search.registry import SEARCHERS, check_installed, make_searcher
from autosync.search.searcher import SearcherArguments
from search_spaces.default import SPACE
from tests.cases import mlp_model, star_cluster

HERE = SPACE.bind(mlp_model(), star_cluster(2))


@pytest.mark.parametrize("name", SEARCHERS)
def test_a_searcher_says_its_name_in_its_state(name: str) -> None:
    assert make_searcher(name, SearcherArguments(HERE, [], 0, AnalyticSimulator)).state()["searcher"] == name


@pytest.mark.parametrize(("name", "library"), [("tpe", "Optuna"), ("tpe-knobs", "Optuna"), ("gp", "scikit-learn")])
def test_without_its_library_it_says_what_to_install(name: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"optuna", "sklearn"}
    monkeypatch.setattr(registry, "find_spec", lambda module: None if module in missing else find_spec(module))
    with pytest.raises(AutosyncError) as refusal:
        make_searcher(name, SearcherArguments(HERE, [], 0, AnalyticSimulator))
    assert str(refusal.value) == (
        f"Searcher {name!r} needs {library}, which is not installed. Run `pip install '.[rivals]'` in a "
        "clone of autosync, or choose another searcher."
    )
    for installed in ("original", "guided", "random"):
        check_installed(installed)
