"""Rivals by name: all of them can be asked for on the command line, and say what they lack."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from autosync.cost import AnalyticSimulator
from autosync.errors import AutosyncError
from autosync.search import registry as making
from autosync.search.registry import RIVALS, check_installed, make_rival
from autosync.tune.options import SEARCHERS
from search_spaces.default import SPACE
from tests.cases import mlp_model, star_cluster

HERE = SPACE.bind(mlp_model(), star_cluster(2))


def test_the_command_knows_every_rival() -> None:
    assert set(RIVALS) < set(SEARCHERS)


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_says_its_name_in_its_state(name: str) -> None:
    assert make_rival(name, HERE, [], 0, AnalyticSimulator).state()["searcher"] == name


@pytest.mark.parametrize(("name", "library"), [("tpe", "Optuna"), ("tpe-knobs", "Optuna"), ("gp", "scikit-learn")])
def test_without_its_library_it_says_what_to_install(name: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {"optuna", "sklearn"}
    monkeypatch.setattr(making, "find_spec", lambda module: None if module in missing else find_spec(module))
    with pytest.raises(AutosyncError) as refusal:
        check_installed(name)
    assert str(refusal.value) == (
        f"Searcher {name!r} needs {library}, which is not installed; install autosync[rivals], "
        "or take another searcher."
    )
    for other in ("original", "guided", "random"):
        check_installed(other)
