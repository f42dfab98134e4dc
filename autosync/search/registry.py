"""Every searcher by its name, in a line. Its module and the library it needs are imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from autosync.errors import AutosyncError

if TYPE_CHECKING:
    from autosync.search.searcher import Asked, LedgerSearch


class Entry(NamedTuple):
    """A searcher: `module:name` of the function that makes it from an `Asked`, and its library if that is an extra.

    `needs` is the module of that library, and what it is called.
    """

    maker: str
    needs: tuple[str, str] | None = None


OPTUNA, SCIKIT_LEARN = ("optuna", "Optuna"), ("sklearn", "scikit-learn")

SEARCHERS: Mapping[str, Entry] = {
    "guided": Entry("autosync.search.guided.searcher:GuidedSearch.of"),
    "evolution": Entry("autosync.search.evolution:EvolutionSearch.of"),
    "random": Entry("autosync.search.random_search:RandomSearch.of"),
    "original": Entry("autosync.search.rivals.original:OriginalSearch.of"),
    "tpe": Entry("autosync.search.rivals.tpe:tpe", OPTUNA),
    "tpe-knobs": Entry("autosync.search.rivals.tpe:tpe_on_knobs", OPTUNA),
    "gp": Entry("autosync.search.rivals.gaussian_process:gp", SCIKIT_LEARN),
    "gp-knobs": Entry("autosync.search.rivals.gaussian_process:gp_on_knobs", SCIKIT_LEARN),
}
"""The searchers by name, in the order of the command's help."""


def check_installed(name: str) -> None:
    """Raise `AutosyncError` if the library of the searcher `name` is missing."""
    needs = SEARCHERS[name].needs
    if needs and find_spec(needs[0]) is None:
        raise AutosyncError(
            f"Searcher {name!r} needs {needs[1]}, which is not installed; run `pip install '.[rivals]'` in a "
            "clone of autosync, or take another searcher."
        )


def make_searcher(name: str, asked: Asked) -> LedgerSearch:
    """The searcher called `name`, a key of `SEARCHERS`.

    Raises `AutosyncError` if its library is missing.
    """
    check_installed(name)
    module, _, maker = SEARCHERS[name].maker.partition(":")
    made: LedgerSearch = attrgetter(maker)(import_module(module))(asked)
    return made
