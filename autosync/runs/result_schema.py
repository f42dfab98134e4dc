"""The JSON Schema of a run's result.json."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from autosync.spec import quoted

__all__ = ["result_fault", "result_schema"]

LONGEST_FAULT = 120


def result_schema() -> dict[str, Any]:
    """The JSON Schema, draft 2020-12; every field is described."""
    document: dict[str, Any] = json.loads((files("autosync.runs") / "result.schema.json").read_text(encoding="utf-8"))
    return document


def result_fault(document: dict[str, Any]) -> str:
    """What in `document` is not as the schema says; empty when all is."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(result_schema()).iter_errors(document))
    if error is None:
        return ""
    message = error.message.replace(repr(error.instance), quoted(error.instance))
    message = message if len(message) <= LONGEST_FAULT else f"{message[:LONGEST_FAULT]} ..."
    return f"{error.json_path}: {message}"
