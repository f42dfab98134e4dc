"""Rivals by their name. The libraries that a rival needs are an extra, imported only when that rival is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec

from autosync.cost import Simulator
from autosync.errors import AutosyncError
from autosync.search import Searcher
from autosync.search.rivals.knobs import Knobs
from autosync.search.rivals.one_by_one import Chooser, OneByOneSearch
from autosync.search.rivals.original import OriginalSearch
from autosync.search.rivals.per_variable import PerVariable
from autosync.space import SearchSpace
from autosync.spec import Strategy

__all__ = ["RIVALS", "check_installed", "make_chooser", "make_rival"]

RIVALS = ("original", "tpe", "tpe-knobs", "gp", "gp-knobs")
"""The original's sampler; TPE and Bayesian optimization, each on every variable's decision or on a few knobs."""

NEEDED = {"tpe": ("optuna", "Optuna"), "gp": ("sklearn", "scikit-learn")}
"""The module that a rival imports, and what its library is called, by the beginning of the rival's name."""


def check_installed(name: str) -> None:
    """Raise `AutosyncError` when the rival called `name` needs what is not installed."""
    module, library = NEEDED.get(name.partition("-")[0], ("", ""))
    if module and find_spec(module) is None:
        raise AutosyncError(
            f"Searcher {name!r} needs {library}, which is not installed; install autosync[rivals], "
            "or take another searcher."
        )


def make_rival(
    name: str,
    space: SearchSpace,
    seeds: Sequence[tuple[str, Strategy]],
    seed: int,
    simulator: Callable[[], Simulator],
) -> Searcher:
    """The rival called `name`, one of `RIVALS`; `simulator` makes one for the rival that ranks by it.

    Raises `AutosyncError` when the library that it needs is not installed.
    """
    if name == "original":
        return OriginalSearch(space, seeds, seed, simulator())
    return OneByOneSearch(space, seeds, seed, make_chooser(name, space))


def make_chooser(name: str, space: SearchSpace) -> Chooser:
    """The chooser of the rival called `name`, which is one that chooses its strategies one by one.

    Raises `AutosyncError` when the library that it needs is not installed.
    """
    check_installed(name)
    encoding = Knobs(space) if name.endswith(Knobs.suffix) else PerVariable(space)
    if name.startswith("tpe"):
        from autosync.search.rivals.tpe import TpeChooser

        return TpeChooser(encoding)
    from autosync.search.rivals.gaussian_process import GaussianProcessChooser

    return GaussianProcessChooser(encoding)
