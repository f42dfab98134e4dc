"""The language of search spaces, and what a declared space becomes once it is bound to a model and a cluster."""

from autosync.space.rules import EVERYTHING, Cut, PartBytes, PerServer, Rule, Servers, Where
from autosync.space.search_space import SearchSpace
from autosync.space.space import Space

__all__ = ["EVERYTHING", "Cut", "PartBytes", "PerServer", "Rule", "SearchSpace", "Servers", "Space", "Where"]
