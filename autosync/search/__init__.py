"""How to choose: searchers behind one protocol, the loop that runs them, and how sure the outcome is."""

from autosync.search.breeding import BreedingOptions
from autosync.search.evolution import EvolutionOptions, EvolutionSearch
from autosync.search.guided import GuidedOptions, GuidedSearch
from autosync.search.loop import run_search
from autosync.search.metrics import best_so_far, kendall_tau, median_interval, pairwise_accuracy, regret
from autosync.search.protocol import Proposal, Searcher
from autosync.search.random_search import RandomSearch
from autosync.search.remeasure import Verdict, interleaved, judge

__all__ = [
    "BreedingOptions",
    "EvolutionOptions",
    "EvolutionSearch",
    "GuidedOptions",
    "GuidedSearch",
    "Proposal",
    "RandomSearch",
    "Searcher",
    "Verdict",
    "best_so_far",
    "interleaved",
    "judge",
    "kendall_tau",
    "median_interval",
    "pairwise_accuracy",
    "regret",
    "run_search",
]
