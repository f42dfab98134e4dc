"""Controllers: what a discipline decides before each step, out of what is known of the steps before."""

from collections.abc import Callable

from autosync.control.bandit import Bandit
from autosync.control.expected import Expected, elfving, empirical
from autosync.control.filter import Filter
from autosync.control.fixed import Fixed
from autosync.control.period import Periodic
from autosync.control.protocol import Controller
from autosync.control.threshold import WhenGradientsChange
from autosync.control.together import Together
from autosync.control.warm_up import WarmUp
from autosync.spec import CutOff, Decision, Strategy

__all__ = ["Controller", "controller_of"]


def controller_of(strategy: Strategy) -> Controller | None:
    """A controller of the strategy's discipline, at its first step; None where the discipline is plain."""
    discipline, parts = strategy.discipline, list[Controller]()
    if rhythm := discipline.rhythm:
        if rhythm.steps is not None:
            parts.append(Periodic(rhythm.steps))
        else:
            assert rhythm.threshold is not None, "a rhythm has one of the two"
            parts.append(WhenGradientsChange(rhythm.threshold, len(strategy.replicas)))
    if discipline.waits:
        parts.append(_waiting(discipline.waits, len(strategy.replicas)))
    if discipline.fidelity:
        parts.append(WarmUp(len(discipline.fidelity.ratios), discipline.fidelity.steps))
    if discipline.loads:
        parts.append(Fixed(Decision(loads=discipline.loads.shares)))
    return parts[0] if len(parts) == 1 else Together(parts) if parts else None


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
    }
    assert waits.policy is not None, "a cut-off has one of the two"
    return policies[waits.policy]()
