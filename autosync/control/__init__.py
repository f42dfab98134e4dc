"""Controllers: what a discipline decides before each step, out of what is known of the steps before."""

from autosync.control.period import Periodic
from autosync.control.protocol import Controller
from autosync.control.threshold import WhenGradientsChange
from autosync.spec import Strategy

__all__ = ["Controller", "controller_of"]


def controller_of(strategy: Strategy) -> Controller | None:
    """A controller of the strategy's discipline, at its first step; None where the discipline is plain."""
    rhythm = strategy.discipline.rhythm
    if rhythm is None:
        return None
    if rhythm.steps is not None:
        return Periodic(rhythm.steps)
    assert rhythm.threshold is not None, "a rhythm has one of the two"
    return WhenGradientsChange(rhythm.threshold, len(strategy.replicas))
