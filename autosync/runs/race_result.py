"""The schemas of a race's `race.json` and `result.json`, checked when they are read."""

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from autosync.spec import cut, quote

NUMBER = {"type": ["number", "null"]}
COUNT = {"type": "integer", "minimum": 0, "maximum": 2**53}
TEXT = {"type": "string", "maxLength": 4000}


def _object(required: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": {**required, **more}}


ESTIMATE = _object({"value": NUMBER, "low": NUMBER, "high": NUMBER})

PLACE = _object(
    {
        "name": TEXT,
        "seeds": COUNT,
        "reached": COUNT,
        "seconds": NUMBER,
        "steps": NUMBER,
        "step_seconds": NUMBER,
        "times_as_fast_as_plain": ESTIMATE,
        "winner_over_it": ESTIMATE,
    }
)

RESULT = _object(
    {
        "winner": TEXT,
        "proven": {"type": "boolean"},
        "returned": TEXT,
        "time": TEXT,
        "judged_seeds": {"type": "array", "items": {"type": "integer"}},
        "places": {"type": "array", "minItems": 1, "items": PLACE},
        "faults": {"type": "object", "additionalProperties": {"type": "string"}},
    }
)

ASKED = _object(
    {"model": TEXT, "target": {"type": "object"}, "cluster": {"type": "object"}},
    base={"type": "object"},
    ran_on={"type": "object"},
)


def result_fault(document: Mapping[str, Any]) -> str:
    """The reason why `document` is not the result of a race; empty if it is one."""
    fault = _fault(document, RESULT)
    if not fault and document["winner"] not in {place["name"] for place in document["places"]}:
        return f"$.winner: {quote(document['winner'])} is not among the places"
    return fault


def question_fault(document: Mapping[str, Any]) -> str:
    """The reason why `document` does not hold the options of a race; empty if it does."""
    return _fault(document, ASKED)


def _fault(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    error = best_match(Draft202012Validator(schema).iter_errors(document))
    return "" if error is None else cut(f"{error.json_path}: {error.message}")
