"""What a replica computes: how much, and when in its backward pass each gradient is ready."""

from __future__ import annotations

from autosync.spec import ModelSpec

__all__ = ["core_flops", "ready_fractions"]

SECONDS_PER_FLOP = 1e-10
"""Seconds a flop of the core that a profiled pass is told in flops by; any core will do once records are fitted."""


def ready_fractions(model: ModelSpec) -> dict[str, float]:
    """The fraction of the backward pass after which each variable's gradient is ready, from 0 to 1.

    The backward pass visits the operators in reverse, each costing in proportion to its flops; a gradient is ready when
    the last operator that reads the variable has been visited. The order of `ready_order` always holds. Without
    operators, gradients become ready at equal intervals. A profiled model says all this itself.
    """
    if model.profile is not None:
        return dict(model.profile.ready)
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


def core_flops(model: ModelSpec) -> float:
    """Forward flops of one replica's step on a CPU; of a profiled model, as many as would take as long."""
    if model.profile is None:
        return model.flops
    return (model.profile.forward_seconds + model.profile.backward_seconds) / 3 / SECONDS_PER_FLOP
