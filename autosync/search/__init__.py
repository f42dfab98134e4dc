"""How to choose: searchers behind one protocol, the loop that runs them, and how sure the outcome is."""

from autosync.search.breeding import BreedingOptions
from autosync.search.counterfactuals import Counterfactual, counterfactuals
from autosync.search.evolution import EvolutionOptions, EvolutionSearch
from autosync.search.guided import GuidedOptions, GuidedSearch
from autosync.search.loop import run_search
from autosync.search.metrics import best_so_far, pairwise_accuracy, strategy_medians
from autosync.search.protocol import Foresight, Proposal, Searcher, Weighing, ask_within
from autosync.search.random_search import RandomSearch
from autosync.search.remeasure import Verdict, interleaved, judge, speedup, speedup_interval
from autosync.search.worth import Worth, worth_of
from autosync.spec import median_interval

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
    "best_so_far",
    "counterfactuals",
    "interleaved",
    "judge",
    "median_interval",
    "pairwise_accuracy",
    "run_search",
    "speedup",
    "speedup_interval",
    "strategy_medians",
    "worth_of",
]
