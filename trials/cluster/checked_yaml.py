"""YAML files checked against a pydantic model; whatever is wrong with one is told in a sentence."""

from __future__ import annotations

import reprlib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from autosync.errors import ClusterError

__all__ = ["read_checked"]

Model = TypeVar("Model", bound=BaseModel)


def read_checked(file: Path, what: str, model: type[Model]) -> Model:
    """The YAML `file`, a `what`, as `model`. Raises `ClusterError`, naming file, key, rule, and what came."""
    name = f"{what} {str(file)!r}"
    try:
        text = file.read_bytes()
    except OSError as error:
        raise ClusterError(f"{name} cannot be read: {error.strerror}.") from None
    try:
        repeated = next(_repeated_keys(yaml.compose(text, Loader=yaml.SafeLoader), set()), None)
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ClusterError(f"{name} must be YAML, but: {' '.join(str(error).split())}.") from None
    if repeated:
        raise ClusterError(
            f"{name}, line {repeated.start_mark.line + 1}: key {repeated.value!r} comes twice; keep one."
        )
    if not isinstance(document, dict):
        raise ClusterError(f"{name} must hold keys with values, not {reprlib.repr(document)}.")
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise ClusterError(f"{name}, {_in_words(error, model)}") from None


def _repeated_keys(node: yaml.Node | None, seen: set[int]) -> Iterator[yaml.ScalarNode]:
    """YAML's loader would keep the last of several equal keys and say nothing."""
    if node is None or isinstance(node, yaml.ScalarNode) or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from _repeated_keys(each, seen)
        return
    met = set()
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode):
            if key.value in met:
                yield key
            met.add(key.value)
        yield from _repeated_keys(value, seen)


def _in_words(error: ValidationError, model: type[BaseModel]) -> str:
    """Its first fault: the key, the rule, and what came."""
    first = error.errors()[0]
    path, kind = first["loc"], first["type"]
    key = _written(path)
    if kind == "extra_forbidden":
        inside = f" in {_written(path[:-1])}" if len(path) > 1 else ""
        return f"{key}: there is no such key{inside}; known are {', '.join(_keys_at(model, path[:-1]))}."
    if kind == "missing":
        return f"{key}: this key is needed; add it."
    if kind == "value_error":
        told = str(first["ctx"]["error"])
        return f"{key}: {told}" if key else told
    rule = first["msg"].replace("Input should", "must").replace("String should", "must").replace("List should", "must")
    return f"{key}: {rule}, not {reprlib.repr(first['input'])}."


def _written(path: tuple[int | str, ...]) -> str:
    """As in nodes[2].up."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path if part != "[key]")
    return "".join(parts).lstrip(".")


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
