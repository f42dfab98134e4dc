"""The strategies that the engine of a search does not carry out; they are left out by name, before any trial."""

from collections.abc import Mapping
from dataclasses import replace

from autosync.baselines import BASELINES
from autosync.engine.core.registry import engine_named
from autosync.spec import ClusterSpec, ModelSpec, Strategy


def refusals_of(
    framework: str, strategies: Mapping[str, Strategy], model: ModelSpec, cluster: ClusterSpec
) -> dict[str, str]:
    """A sentence with the reason, by name, for each of the `strategies` that the engine does not carry out."""
    engine = engine_named(framework)
    reasons = {name: engine.refusals(strategy, model, cluster) for name, strategy in strategies.items()}
    return {
        name: f"{name} is left out, because the {engine.title} engine does not carry it out: {clauses[0]}."
        for name, clauses in reasons.items()
        if clauses
    }


def sends_rows_apart(framework: str) -> bool:
    """Whether a search may send the looked-up rows of tied tables apart."""
    return engine_named(framework).sends_rows_apart


def can_overlap(framework: str, model: ModelSpec, cluster: ClusterSpec) -> bool:
    """Whether a search has steps of `model` that overlap with the next forward pass: the engine carries them out as
    simulators predict them."""
    if not engine_named(framework).sends_by_reads:
        return False
    reduced = BASELINES["all_reduce_per_variable"](model, cluster)
    return not engine_named(framework).refusals(replace(reduced, overlap_next_forward=True), model, cluster)
