"""Strings among the inputs of a model, which are refused."""

from typing import Any

WITHOUT_TEXT = (
    "which replicas cannot look up; apply StringLookup or TextVectorization to the data before training, and give its "
    "numbers to a model without that layer"
)
"""The end of a sentence that refuses strings as inputs."""


def is_text(array: Any) -> bool:
    """Whether a NumPy array of one axis or more holds strings."""
    if array.ndim == 0 or array.dtype.kind not in "USO":
        return False
    return array.dtype.kind != "O" or any(isinstance(item, str | bytes) for item in array.flat)
