"""Published searchers on the same space with the same trials: the competitors of guided search.

Left out: HyperOpt, because its TPE is already here, and Nevergrad, because its strategies are evolutions like the one
in `search`.
"""

from autosync.search.rivals.encoding import Dimension, Encoding, Point
from autosync.search.rivals.knobs import Knobs
from autosync.search.rivals.one_by_one import Chooser, Known, OneByOneSearch
from autosync.search.rivals.original import OriginalOptions, OriginalSearch
from autosync.search.rivals.per_variable import PerVariable

__all__ = [
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
]
