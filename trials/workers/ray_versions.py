"""Explains Ray's refusal of a program whose Ray or Python has another version than the cluster's."""

import re

from autosync.errors import ClusterError

STATED = re.compile(r"\b(?:Ray|Python): (\S+)")
"""A version in Ray's message: Ray and Python of the cluster, then Ray and Python of this process."""


def version_mismatch(error: RuntimeError, address: str) -> ClusterError | None:
    """The sentence for an error of `ray.init` at `address`; None if the error is not about versions."""
    versions = STATED.findall(str(error))
    if "Version mismatch" not in str(error) or len(versions) != 4:
        return None
    return ClusterError(
        "A program that joins a Ray cluster needs the cluster's versions of Ray and Python, to the last digit; the "
        f"cluster at {address!r} has Ray {versions[0]} and Python {versions[1]}, and this program Ray {versions[2]} "
        f"and Python {versions[3]}. Install autosync here for those versions."
    )
