"""All searchers by name. A searcher's module and library are imported when the searcher is requested."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from autosync.errors import AutosyncError

if TYPE_CHECKING:
    from autosync.search.searcher import LedgerSearch, SearcherArguments


class SearcherFactory(NamedTuple):
    """The function that makes a searcher, and the optional library that the searcher needs."""

    maker: str
    """`module:name` of a function from `Asked` to the searcher."""
    needs: tuple[str, str] | None = None
    """The import name and the display name of the library; None if no optional library is needed."""


OPTUNA, SCIKIT_LEARN = ("optuna", "Optuna"), ("sklearn", "scikit-learn")

SEARCHERS: Mapping[str, SearcherFactory] = {
    "guided": SearcherFactory("autosync.search.guided.searcher:GuidedSearch.of"),
    "evolution": SearcherFactory("autosync.search.evolution:EvolutionSearch.of"),
    "random": SearcherFactory("autosync.search.random_search:RandomSearch.of"),
    "original": SearcherFactory("autosync.search.rivals.original:OriginalSearch.of"),
    "tpe": SearcherFactory("autosync.search.rivals.tpe:tpe", OPTUNA),
    "tpe-knobs": SearcherFactory("autosync.search.rivals.tpe:tpe_on_knobs", OPTUNA),
    "gp": SearcherFactory("autosync.search.rivals.gaussian_process:gp", SCIKIT_LEARN),
    "gp-knobs": SearcherFactory("autosync.search.rivals.gaussian_process:gp_on_knobs", SCIKIT_LEARN),
}
"""The searchers by name, in the order of the command's help."""


def check_installed(name: str) -> None:
    """Raise `AutosyncError` if the library of the searcher `name` is missing."""
    needs = SEARCHERS[name].needs
    if needs and find_spec(needs[0]) is None:
        raise AutosyncError(
            f"Searcher {name!r} needs {needs[1]}, which is not installed. Run `pip install '.[rivals]'` in a "
            "clone of autosync, or choose another searcher."
        )


def make_searcher(name: str, arguments: SearcherArguments) -> LedgerSearch:
    """Return the searcher called `name`, a key of `SEARCHERS`.

    Raises `AutosyncError` if the searcher's library is missing.
    """
    check_installed(name)
    module, _, maker = SEARCHERS[name].maker.partition(":")
    searcher: LedgerSearch = attrgetter(maker)(import_module(module))(arguments)
    return searcher
