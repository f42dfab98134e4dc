"""Controllers: a discipline's decisions before each step, made from the reports of earlier steps."""

from collections.abc import Callable

from autosync.control.bandit import Bandit
from autosync.control.composite import CompositeController
from autosync.control.critical import WhileGradientsChange
from autosync.control.expected import ExpectedTimeController, elfving, empirical
from autosync.control.fastest import Fastest
from autosync.control.filter import Filter
from autosync.control.fixed import Fixed
from autosync.control.formula import ByFormula
from autosync.control.gain import Gain
from autosync.control.kept_energy import KeptEnergy
from autosync.control.period import Periodic
from autosync.control.proportional import Proportional
from autosync.control.protocol import Controller
from autosync.control.threshold import WhenGradientsChange
from autosync.control.warm_up import WarmUp
from autosync.spec import CutOff, Decision, Fidelity, Rhythm, Strategy

__all__ = ["PLAINLY", "Controller", "controller_of"]

PLAINLY = Fixed(Decision())
"""Decides plain steps. It has no state, so all sessions can share it."""


def controller_of(strategy: Strategy) -> Controller | None:
    """Return a new controller of the strategy's discipline, or None if the discipline is plain."""
    discipline, replicas = strategy.discipline, len(strategy.replicas)
    parts = list[Controller]()
    if rhythm := discipline.rhythm:
        parts.append(_meeting(rhythm, replicas))
    if discipline.waits:
        parts.append(_waiting(discipline.waits, replicas))
    if fidelity := discipline.fidelity:
        if fidelity.time_weight is None:
            parts.append(_keeping(fidelity, replicas))
        if fidelity.transports:
            parts.append(_sending(fidelity, replicas))
    if loads := discipline.loads:
        parts.append(Fixed(Decision(loads=loads.shares)) if loads.dead_band is None else Proportional(loads))
    return parts[0] if len(parts) == 1 else CompositeController(parts) if parts else None


def _meeting(rhythm: Rhythm, replicas: int) -> Controller:
    """The controller that decides in which steps the `replicas` synchronize."""
    after = rhythm.after or 0
    if rhythm.steps is not None:
        return Periodic(rhythm.steps, after)
    return WhenGradientsChange(replicas, rhythm.threshold, rhythm.quantile, after)


def _waiting(waits: CutOff, replicas: int) -> Controller:
    """The controller that decides how many of the `replicas` a step waits for."""
    if waits.first is not None:
        return Fixed(Decision(first=waits.first))
    truncated = waits.imputes == "truncated"
    policies: dict[str, Callable[[], Controller]] = {
        "elfving": lambda: ExpectedTimeController(elfving, replicas, truncated),
        "empirical": lambda: ExpectedTimeController(empirical, replicas, truncated),
        "filter": lambda: Filter(replicas),
        "bandit": lambda: Bandit(replicas),
        "gain": lambda: Gain(replicas, truncated),
        "learned": lambda: _time_model_controller(replicas, truncated),
    }
    assert waits.policy is not None, "a cut-off has a count or a policy"
    return policies[waits.policy]()


def _time_model_controller(replicas: int, truncated: bool) -> Controller:
    # Only this policy needs torch, which takes seconds to import.
    from autosync.control.learned import LearnedTimeController

    return LearnedTimeController(replicas, truncated)


def _keeping(fidelity: Fidelity, replicas: int) -> Controller:
    """The controller that decides which ratio top-k keeps."""
    count = len(fidelity.ratios)
    if fidelity.keeps is not None:
        return KeptEnergy(count, fidelity.steps, fidelity.keeps, replicas)
    if fidelity.changes is not None:
        return WhileGradientsChange(count, fidelity.steps, fidelity.changes)
    return WarmUp(count, fidelity.steps)


def _sending(fidelity: Fidelity, replicas: int) -> Controller:
    """The controller that decides top-k's transport and, with a time weight, also the ratio that top-k keeps."""
    transports = fidelity.transports or ()
    if fidelity.probed is None:
        return Fastest(len(transports), fidelity.steps)
    return ByFormula(transports, fidelity.ratios, replicas, fidelity.probed, fidelity.time_weight)
