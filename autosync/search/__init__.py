"""How to choose: searchers behind one protocol, the loop that runs them, and how sure the outcome is."""

from autosync.search.breeding import BreedingOptions
from autosync.search.counterfactuals import Counterfactual, counterfactuals
from autosync.search.evolution import EvolutionOptions, EvolutionSearch
from autosync.search.guided import GuidedOptions, GuidedSearch
from autosync.search.loop import run_search
from autosync.search.protocol import Foresight, Proposal, Searcher, Weighing, ask_within
from autosync.search.random_search import RandomSearch
from autosync.search.remeasure import Verdict, interleaved, judge, speedup, speedup_interval
from autosync.search.worth import Worth, worth_of

__all__ = [
    "BreedingOptions",
    "Counterfactual",
    "EvolutionOptions",
    "EvolutionSearch",
    "Foresight",
    "GuidedOptions",
    "GuidedSearch",
    "Proposal",
    "RandomSearch",
    "Searcher",
    "Verdict",
    "Weighing",
    "Worth",
    "ask_within",
    "counterfactuals",
    "interleaved",
    "judge",
    "run_search",
    "speedup",
    "speedup_interval",
    "worth_of",
]
