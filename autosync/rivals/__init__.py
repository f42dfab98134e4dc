"""Searchers that others have written about, on the same space and with the same trials: what guided search must beat.

Left out: HyperOpt, whose TPE is the one here, and Nevergrad, whose strategies are evolutions like the one in `search`.
"""

from autosync.rivals.encoding import Dimension, Encoding, Point
from autosync.rivals.knobs import Knobs
from autosync.rivals.making import RIVALS, check_installed, make_chooser, make_rival
from autosync.rivals.one_by_one import Chooser, Known, OneByOneSearch
from autosync.rivals.original import OriginalOptions, OriginalSearch
from autosync.rivals.per_variable import PerVariable

__all__ = [
    "RIVALS",
    "Chooser",
    "Dimension",
    "Encoding",
    "Knobs",
    "Known",
    "OneByOneSearch",
    "OriginalOptions",
    "OriginalSearch",
    "PerVariable",
    "Point",
    "check_installed",
    "make_chooser",
    "make_rival",
]
