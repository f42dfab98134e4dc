"""How to choose: searchers behind one protocol, the loop that runs them, and how sure the outcome is."""

from autosync.search.evolution import EvolutionOptions, EvolutionSearch
from autosync.search.guided.breeding import BreedingOptions
from autosync.search.guided.searcher import GuidedOptions, GuidedSearch
from autosync.search.protocol import Foresight, Proposal, Searcher, Weighing, ask_within, run_search
from autosync.search.random_search import RandomSearch
from autosync.search.verdict.counterfactuals import Counterfactual, Worth, counterfactuals, worth_of
from autosync.search.verdict.judging import Verdict, interleaved, judge, speedup, speedup_interval

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
