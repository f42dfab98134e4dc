"""Checks YAML files with a pydantic model, and reports the first fault in a sentence."""

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from autosync.errors import ClusterError, SpecError
from autosync.spec import cut, quote, read_bytes
from autosync.yaml_text import YAML, parse_yaml, plain_text

KEY = "[key]"
"""The last part of pydantic's path if the fault is in a key instead of its value."""

Model = TypeVar("Model", bound=BaseModel)


def read_checked(file: Path, what: str, model: type[Model]) -> Model:
    """Read the YAML `file` as `model`; `what` is the kind of file in messages.

    Raises `ClusterError` with the file, the key, the rule and the value.
    """
    name = f"{what} {str(file)!r}"
    try:
        data = read_bytes(file, name, YAML.size)
        document = parse_yaml(data, name)
    except OSError as error:
        raise ClusterError(f"{name} cannot be read: {error.strerror}.") from None
    except SpecError as error:
        raise ClusterError(str(error)) from None
    if not isinstance(document, dict):
        raise ClusterError(f"{name} must hold keys with values, not {quote(document)}.")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise ClusterError(f"{name}, {_in_words(error, model, data)}") from None


def _in_words(error: ValidationError, model: type[BaseModel], data: bytes) -> str:
    """Return the first fault in words: the key, the rule, and the value as written in the file `data`."""
    first = error.errors()[0]
    path, kind = first["loc"], first["type"]
    key = _path_text(path)
    text = None if isinstance(first["input"], str) else plain_text(data, path, first["input"])
    if kind == "string_type" and text:
        where = _path_text(path[:-2]) if path[-1] == KEY else key
        return f"{where}: YAML reads {text} as {_kind(first['input'])}, not as a text; quote it: {quote(text)}."
    if kind == "extra_forbidden":
        inside = f" in {_path_text(path[:-1])}" if len(path) > 1 else ""
        return f"{key}: there is no such key{inside}; known are {', '.join(_keys_at(model, path[:-1]))}."
    if kind == "missing":
        return f"{key}: this key is needed; add it."
    if kind == "value_error":
        message = str(first["ctx"]["error"])
        return f"{key}: {message}" if key else message
    rule = first["msg"].replace("Input should", "must").replace("String should", "must").replace("List should", "must")
    return f"{key}: {rule}, not {cut(text) if text else quote(first['input'])}."


def _kind(value: object) -> str:
    """Return YAML's name for the value that YAML makes of an unquoted text."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"the number {value}"


def _path_text(path: tuple[int | str, ...]) -> str:
    """Return the path as text, such as nodes[2].up."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path if part != KEY)
    return cut("".join(parts).lstrip("."))


def _keys_at(model: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    for part in path:
        if part in model.model_fields:
            models = list(_models_in(model.model_fields[str(part)].annotation))
            model = models[0] if models else model
    return list(model.model_fields)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _models_in(inner)
