"""Operations that TensorFlow's automatic order leaves alone: they wait for their inputs and for nothing else."""

from typing import Any


def run_independently(operation: Any) -> None:
    """Take `operation`, of the function that is being traced, out of the order of operations with side effects.

    TensorFlow puts stateful operations without a variable in a row, and every `Merge` behind all stateful ones before
    it, on whatever devices they are. This is for one whose effects no other operation of the function depends on. It
    still is done when a call of the function returns.
    """
    manager = operation.graph.experimental_acd_manager
    if manager is not None:  # a graph without automatic order has none to be taken out of
        manager.run_independently(operation)
