"""Canonical JSON: the one text of a value, whose digest is its identity."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from autosync.errors import SpecError

__all__ = ["canonical_json", "digest"]

DIGEST_LENGTH = 16


def canonical_json(document: Any) -> str:
    """The single JSON text of `document`: sorted keys, no spaces, ASCII, finite numbers only.

    Raises `SpecError` when the document holds something JSON cannot say exactly (NaN, a set, an object).
    """
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise SpecError(f"A digest needs plain, finite JSON values: {error}. Convert the value first.") from None


def digest(document: Any) -> str:
    """First 16 hexadecimal digits (64 bits) of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()[:DIGEST_LENGTH]
