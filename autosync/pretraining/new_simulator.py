"""A simulator before any fit, for records of one framework."""

from collections.abc import Sequence

from autosync.cost import Blended
from autosync.simulator.learned import LearnedSimulator
from autosync.spec import RuntimeRecord


def new_simulator(records: Sequence[RuntimeRecord], network: str, seed: int) -> LearnedSimulator:
    """Return a simulator that starts from the coefficients of the records' engine."""
    framework = records[0].framework if records else None
    return LearnedSimulator(Blended(framework), network, seed)
