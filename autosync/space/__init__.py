"""The language of search spaces, and what a declared space becomes once it is bound to a model and a cluster."""

from autosync.space.knowledge import KNOWLEDGE
from autosync.space.rules import EVERYTHING, LOSSLESS, Cut, PartBytes, PerServer, Rule, Servers, Where
from autosync.space.search_space import SearchSpace
from autosync.space.space import Space
from autosync.spec import ALGORITHMS, PLACED_ALGORITHMS, Cast, PowerSGD, SufficientFactors, TopK

__all__ = [
    "ALGORITHMS",
    "EVERYTHING",
    "KNOWLEDGE",
    "LOSSLESS",
    "PLACED_ALGORITHMS",
    "Cast",
    "Cut",
    "PartBytes",
    "PerServer",
    "PowerSGD",
    "Rule",
    "SearchSpace",
    "Servers",
    "Space",
    "SufficientFactors",
    "TopK",
    "Where",
]
