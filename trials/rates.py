"""Rates of links as people write them."""

from __future__ import annotations

import re

from autosync.errors import ClusterError
from autosync.spec import quoted

__all__ = ["parse_rate"]


def parse_rate(text: str) -> float:
    """Gbit/s of a rate such as `200mbit` or `1.5gbit`. Raises `ClusterError`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(mbit|gbit)", text)
    if not found or not float(found[1]) > 0:
        raise ClusterError(
            f"A rate is written like 200mbit or 1.5gbit, in small letters and above zero, not {quoted(text)}."
        )
    return float(found[1]) / 1000 if found[2] == "mbit" else float(found[1])
