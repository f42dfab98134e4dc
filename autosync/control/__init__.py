"""Controllers: what a discipline decides before each step, out of what is known of the steps before."""

from autosync.control.period import EveryFew
from autosync.control.protocol import Controller
from autosync.spec import Strategy

__all__ = ["Controller", "controller_of"]


def controller_of(strategy: Strategy) -> Controller | None:
    """A controller of the strategy's discipline, at its first step; None where the discipline is plain."""
    rhythm = strategy.discipline.rhythm
    return None if rhythm is None else EveryFew(rhythm.steps)
