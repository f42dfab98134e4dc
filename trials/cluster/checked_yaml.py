"""YAML files checked against a pydantic model; each fault is stated in a sentence."""

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from autosync.errors import ClusterError, SpecError
from autosync.spec import cut, quoted, read_bytes
from autosync.yaml_text import YAML, parse_yaml, plain_text

KEY = "[key]"
"""The last part of pydantic's path to a fault of a key, not of its value."""

Model = TypeVar("Model", bound=BaseModel)


def read_checked(file: Path, what: str, model: type[Model]) -> Model:
    """The YAML `file`, which is a `what`, as `model`. Raises `ClusterError`, naming file, key, rule, and what came."""
    name = f"{what} {str(file)!r}"
    try:
        data = read_bytes(file, name, YAML.size)
        document = parse_yaml(data, name)
    except OSError as error:
        raise ClusterError(f"{name} cannot be read: {error.strerror}.") from None
    except SpecError as error:
        raise ClusterError(str(error)) from None
    if not isinstance(document, dict):
        raise ClusterError(f"{name} must hold keys with values, not {quoted(document)}.")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise ClusterError(f"{name}, {_in_words(error, model, data)}") from None


def _in_words(error: ValidationError, model: type[BaseModel], data: bytes) -> str:
    """The first fault in words: the key, the rule, and the value as the file `data` has it."""
    first = error.errors()[0]
    path, kind = first["loc"], first["type"]
    key = _written(path)
    text = None if isinstance(first["input"], str) else plain_text(data, path, first["input"])
    if kind == "string_type" and text:
        where = _written(path[:-2]) if path[-1] == KEY else key
        return f"{where}: YAML reads {text} as {_kind(first['input'])}, not as a text; quote it: {quoted(text)}."
    if kind == "extra_forbidden":
        inside = f" in {_written(path[:-1])}" if len(path) > 1 else ""
        return f"{key}: there is no such key{inside}; known are {', '.join(_keys_at(model, path[:-1]))}."
    if kind == "missing":
        return f"{key}: this key is needed; add it."
    if kind == "value_error":
        told = str(first["ctx"]["error"])
        return f"{key}: {told}" if key else told
    rule = first["msg"].replace("Input should", "must").replace("String should", "must").replace("List should", "must")
    return f"{key}: {rule}, not {cut(text) if text else quoted(first['input'])}."


def _kind(value: object) -> str:
    """The value that YAML makes of a text without quotes, in YAML's own words."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"the number {value}"


def _written(path: tuple[int | str, ...]) -> str:
    """The path as it is written, such as nodes[2].up."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path if part != KEY)
    return cut("".join(parts).lstrip("."))


def _keys_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    for part in path:
        if part in model.model_fields:
            found = list(_models_in(model.model_fields[str(part)].annotation))
            model = found[0] if found else model
    return list(model.model_fields)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _models_in(inner)
