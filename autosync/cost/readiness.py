"""When gradients become ready: each variable's fraction of the backward pass."""

from __future__ import annotations

from autosync.spec import ModelSpec

__all__ = ["ready_fractions"]


def ready_fractions(model: ModelSpec) -> dict[str, float]:
    """For each variable, the fraction of the backward pass after which its gradient is ready, from 0 to 1.

    The backward pass visits the operators in reverse, each costing in proportion to its flops; a gradient is ready
    when the last operator that reads the variable has been visited. The order of `ready_order` always holds.
    Without operators, gradients become ready at equal intervals.
    """
    ordered = sorted(model.variables, key=lambda variable: variable.ready_order)
    if not model.flops > 0:
        return {variable.name: (variable.ready_order + 1) / len(ordered) for variable in ordered}
    visited: dict[str, float] = {}
    done = 0.0
    for operator in reversed(model.operators):
        done += operator.flops
        for name in operator.variables:
            visited[name] = min(1.0, done / model.flops)
    fractions, latest = {}, 0.0
    for variable in ordered:
        latest = max(latest, visited.get(variable.name, 0.0))
        fractions[variable.name] = latest
    return fractions
