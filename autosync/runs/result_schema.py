"""The JSON Schema of a run's result.json."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

__all__ = ["result_schema"]


def result_schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12; every field is described."""
    document: dict[str, Any] = json.loads((files("autosync.runs") / "result.schema.json").read_text(encoding="utf-8"))
    return document
