"""Reads the small files of a run. A file that no run could have left is refused in one sentence that names it."""

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError, SpecError
from autosync.spec import STATE, ClusterSpec, ReadLimits, Strategy, quote, read_json
from autosync.spec.reading import DOCUMENT

LONGEST_FAULT = 120


def result_schema() -> dict[str, Any]:
    """The JSON Schema of result.json, draft 2020-12, with a description of every field."""
    document: dict[str, Any] = json.loads((files("autosync.runs") / "result.schema.json").read_text(encoding="utf-8"))
    return document


def result_fault(document: dict[str, Any]) -> str:
    """The first violation of the schema in `document`; empty if there is none."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(result_schema()).iter_errors(document))
    if error is None:
        return ""
    message = error.message.replace(repr(error.instance), quote(error.instance))
    message = message if len(message) <= LONGEST_FAULT else f"{message[:LONGEST_FAULT]} ..."
    return f"{error.json_path}: {message}"


NEEDED: dict[str, type] = {"name": str, "model_digest": str, "cluster": dict}
MAY_BE_THERE: dict[str, type] = {"options": dict, "asked": dict}
ASKED: dict[str, type] = {"command": str, "trials": int, "time_budget_seconds": float, "rounds": int, "space": dict}
ASKED |= {"ran_on": dict}
SPACE: dict[str, type] = {"name": str, "log10_size": float, "decided_variables": int, "effective_dimension": float}
LONGEST_TEXT = 4000
"""The maximum number of characters of a run's name and of its options, which are names and paths."""

CALLED = {str: "a text", dict: "an object", list: "a list", float: "a number", int: "a whole number"}


def run_document(directory: Path) -> dict[str, Any]:
    """The options of the run, from run.json. Raises `AutosyncError`."""
    file = directory / "run.json"
    document = _read(file)
    for field in NEEDED:
        if field not in document:
            raise AutosyncError(f"{file} needs the field {field!r}; name a run of autosync.tune.")
    _check(document, NEEDED | MAY_BE_THERE, file)
    if document["name"] != Path(document["name"]).name or not document["name"].strip("."):
        raise AutosyncError(f"In {file} 'name' must be a plain folder name, not {quote(document['name'])}; repair it.")
    options = document.get("options", {})
    _check(options, {"data": str, "model": str}, file)
    for field, value in (*document.items(), *options.items()):
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            raise AutosyncError(
                f"In {file} {quote(field)} may have at most {LONGEST_TEXT} characters, not {len(value)}; shorten it."
            )
    asked = {name: value for name, value in document.get("asked", {}).items() if value is not None}
    _check(asked, ASKED, file)
    if space := asked.get("space"):
        _check(dict.fromkeys(SPACE) | space, SPACE, file)
    try:
        ClusterSpec.from_json(document["cluster"])
    except SpecError as error:
        raise AutosyncError(f"{file} names a cluster that cannot be read: {error}") from None
    return document


def result_of(directory: Path) -> dict[str, Any] | None:
    """The result, from result.json; None before there is one. Raises `AutosyncError`."""
    file = directory / "result.json"
    document = document_in(file)
    if document is not None and (fault := result_fault(document)):
        raise AutosyncError(
            f"{file} must follow the schema of `autosync runs schema`, but {fault}; remove it, and resume the "
            f"run to write it again."
        )
    return document


def state_of(directory: Path) -> dict[str, Any] | None:
    """The state of the search, from search.json; None before its first trial. Raises `AutosyncError`."""
    file = directory / "search.json"
    document = document_in(file, STATE)
    if document is not None:
        _check(document, {"searcher": dict, "seconds_gone": float}, file)
        _check(document.get("searcher", {}), {"records": list}, file)
    return document


def strategy_of_run(directory: Path) -> Strategy | None:
    """The strategy that the run returned, from strategy.json; None before it is known. Raises `AutosyncError`."""
    file = directory / "strategy.json"
    document = document_in(file)
    try:
        return None if document is None else Strategy.from_json(document)
    except SpecError as error:
        raise AutosyncError(f"{file} holds no strategy: {error}") from None


def document_in(file: Path, limits: ReadLimits = DOCUMENT) -> dict[str, Any] | None:
    """The JSON object in `file`; None if there is no such file. Raises `AutosyncError`."""
    return _read(file, limits) if file.exists() else None


def _check(document: Mapping[str, Any], kinds: Mapping[str, type], file: Path) -> None:
    for field, kind in kinds.items():
        value = document.get(field)
        allowed = (int, float) if kind is float else kind
        if field in document and (not isinstance(value, allowed) or isinstance(value, bool)):
            raise AutosyncError(
                f"In {file} {field!r} is {CALLED[kind]}, not {quote(value)}; remove the run, or repair the file."
            )


def _read(file: Path, limits: ReadLimits = DOCUMENT) -> dict[str, Any]:
    try:
        return read_json(file, str(file), limits=limits, through_links=False)
    except OSError as error:
        raise AutosyncError(f"{file} cannot be read: {error.strerror}.") from None
