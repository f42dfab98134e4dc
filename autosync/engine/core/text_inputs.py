"""Detects strings among the inputs of a model, which engines refuse."""

from typing import Any

WITHOUT_TEXT = (
    "which replicas cannot look up; apply StringLookup or TextVectorization to the data before training, and give its "
    "numbers to a model without that layer"
)
"""The end of a message that refuses strings as inputs."""


def is_text(array: Any) -> bool:
    """Whether a NumPy array with at least one axis holds strings."""
    if array.ndim == 0 or array.dtype.kind not in "USO":
        return False
    return array.dtype.kind != "O" or any(isinstance(item, str | bytes) for item in array.flat)
