"""Controllers: what a discipline decides before each step, out of what is known of the steps before."""

from collections.abc import Callable

from autosync.control.bandit import Bandit
from autosync.control.critical import WhileGradientsChange
from autosync.control.expected import Expected, elfving, empirical
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
from autosync.control.together import Together
from autosync.control.warm_up import WarmUp
from autosync.spec import CutOff, Decision, Fidelity, Rhythm, Strategy

__all__ = ["PLAINLY", "Controller", "controller_of"]

PLAINLY = Fixed(Decision())
"""Decides plain steps; it has no state, so that all may share it."""


def controller_of(strategy: Strategy) -> Controller | None:
    """A controller of the strategy's discipline, at its first step; None where the discipline is plain."""
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
    return parts[0] if len(parts) == 1 else Together(parts) if parts else None


def _meeting(rhythm: Rhythm, replicas: int) -> Controller:
    """The controller that says in which steps so many replicas meet."""
    after = rhythm.after or 0
    if rhythm.steps is not None:
        return Periodic(rhythm.steps, after)
    return WhenGradientsChange(replicas, rhythm.threshold, rhythm.quantile, after)


def _waiting(waits: CutOff, replicas: int) -> Controller:
    """The controller that says for how many of so many replicas a step waits."""
    if waits.first is not None:
        return Fixed(Decision(first=waits.first))
    truncated = waits.imputes == "truncated"
    policies: dict[str, Callable[[], Controller]] = {
        "elfving": lambda: Expected(elfving, replicas, truncated),
        "empirical": lambda: Expected(empirical, replicas, truncated),
        "filter": lambda: Filter(replicas),
        "bandit": lambda: Bandit(replicas),
        "gain": lambda: Gain(replicas, truncated),
        "learned": lambda: _learned(replicas, truncated),
    }
    assert waits.policy is not None, "a cut-off has one of the two"
    return policies[waits.policy]()


def _learned(replicas: int, truncated: bool) -> Controller:
    from autosync.control.learned import Learned  # torch takes seconds to import, and others do without

    return Learned(replicas, truncated)


def _keeping(fidelity: Fidelity, replicas: int) -> Controller:
    """The controller that says which ratio top-k keeps."""
    count = len(fidelity.ratios)
    if fidelity.keeps is not None:
        return KeptEnergy(count, fidelity.steps, fidelity.keeps, replicas)
    if fidelity.changes is not None:
        return WhileGradientsChange(count, fidelity.steps, fidelity.changes)
    return WarmUp(count, fidelity.steps)


def _sending(fidelity: Fidelity, replicas: int) -> Controller:
    """The controller that says by which transport what is kept goes; with a time weight also which ratio that is."""
    transports = fidelity.transports or ()
    if fidelity.probed is None:
        return Fastest(len(transports), fidelity.steps)
    return ByFormula(transports, fidelity.ratios, replicas, fidelity.probed, fidelity.time_weight)
