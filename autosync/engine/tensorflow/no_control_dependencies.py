"""Exempts operations from TensorFlow's automatic control dependencies, so that they wait only for their inputs."""

from typing import Any


def run_independently(operation: Any) -> None:
    """Remove `operation` of the function under tracing from the order of operations with side effects.

    TensorFlow orders all stateful operations without a variable one after another, and every `Merge` after all earlier
    stateful operations, on any devices. Call this only if no other operation of the function depends on the effects of
    `operation`. A call of the function still waits for `operation` before it returns.
    """
    manager = operation.graph.experimental_acd_manager
    if manager is not None:  # None: the graph has no automatic order
        manager.run_independently(operation)
