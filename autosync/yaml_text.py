"""Reads YAML from outside within limits, as `autosync.spec.reading` reads JSON.

Only values of JSON are read: maps, lists, texts, numbers, true and false, null. Anchors, aliases and merge keys are
refused, because a line can expand to a million values, and so are tags.
"""

from collections.abc import Hashable, Sequence
from typing import Any, final

import yaml

from autosync.errors import SpecError
from autosync.spec import ReadLimits, cut, quote

YAML = ReadLimits(size=1 << 20, values=100_000)
"""A thousand nodes with all their fields have 150 kB and 30 000 values."""

_FastestLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the compiled loader is ten times as fast

INT, FLOAT, TIMESTAMP, MERGE, VALUE = (
    f"tag:yaml.org,2002:{name}" for name in ("int", "float", "timestamp", "merge", "value")
)


def parse_yaml(data: bytes, what: str, limits: ReadLimits = YAML) -> Any:
    """Return the document in `data`; `what` names it in the error. Raises `SpecError`."""
    if len(data) > limits.size:
        raise SpecError(f"{what} must have at most {limits.size >> 10} KiB, but has more.")
    try:
        _check_events(data, limits)
        return yaml.load(data, Loader=_Plain)
    except _RefusedError as error:
        raise SpecError(f"{what}{error}") from None
    except yaml.YAMLError as error:
        raise SpecError(f"{what} must be YAML, but: {_in_words(error)}.") from None


class _RefusedError(Exception):
    """An error whose message continues a sentence that begins with the document's name."""


def _refusal(mark: yaml.Mark, reason: str) -> _RefusedError:
    return _RefusedError(f", line {mark.line + 1}: {reason}")


def _check_events(data: bytes, limits: ReadLimits) -> None:
    """Raise `_RefusedError` if the document exceeds `limits`, before any value is built or any alias resolved."""
    values = depth = 0
    for event in yaml.parse(data, Loader=_FastestLoader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if not isinstance(event, yaml.NodeEvent):
            continue
        values += 1
        depth += isinstance(event, yaml.CollectionStartEvent)
        if event.anchor is not None:
            named = cut(f"{'*' if isinstance(event, yaml.AliasEvent) else '&'}{event.anchor}")
            raise _refusal(event.start_mark, f"anchors and aliases are not read, but {named} is one; write it out.")
        if getattr(event, "tag", None) is not None:
            raise _refusal(event.start_mark, f"tags are not read, but {cut(event.tag)} is one; leave it out.")
        if values > limits.values:
            raise _refusal(event.start_mark, f"there must be at most {limits.values} values, but here are more.")
        if depth > limits.depth:
            raise _refusal(event.start_mark, f"at most {limits.depth} nested values are allowed, but here are more.")


@final
class _Plain(_FastestLoader):  # type: ignore[misc]
    """Builds the values of JSON from documents without anchors and tags."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag in (INT, FLOAT):
            if len(node.value) > YAML.digits:
                raise _refusal(
                    node.start_mark, f"a number has at most {YAML.digits} digits, and {quote(node.value)} has more."
                )
            try:
                return super().construct_object(node, deep)
            except (ValueError, OverflowError):  # such as 0x_, which is a number in YAML but not in Python
                raise _refusal(node.start_mark, f"{quote(node.value)} is no number.") from None
        if node.tag in (TIMESTAMP, VALUE):
            return node.value
        return super().construct_object(node, deep)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse equal keys, because YAML's own loader would silently keep the last one."""
        seen: dict[Any, str] = {}
        for key, _ in node.value:
            if key.tag == MERGE:
                raise _refusal(
                    key.start_mark, "merge keys are not read, but `<<` is one; write out what it stands for."
                )
            if not isinstance(key, yaml.ScalarNode):
                raise _refusal(key.start_mark, "a key must be a text.")
            value = self.construct_object(key)
            if value in seen:
                raise _refusal(key.start_mark, _duplicate_text(seen[value], key.value))
            seen[value] = key.value
        built: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return built


def _duplicate_text(first: str, second: str) -> str:
    if first == second:
        return f"key {quote(first)} comes twice; keep one."
    return f"YAML reads the keys {first} and {second} as the same value; quote them: {quote(first)}, {quote(second)}."


def plain_text(data: bytes, path: Sequence[int | str], value: object) -> str | None:
    """Return the unquoted text at `path` in `data` that YAML reads as `value`, where `value` is not a text.

    `parse_yaml` must have accepted `data`. `path` is a list of keys and indices. After the key of a map, a last part
    may refer to the key itself. None if the text is quoted, left out or not found.
    """
    node = yaml.compose(data, Loader=_FastestLoader)
    for part in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
        elif isinstance(node, yaml.MappingNode):
            keys = [key for key, _ in node.value]
            named = [inner for key, inner in node.value if key.value == part]
            node = named[0] if named else next((key for key in keys if _reads_as(key, value)), None)
    return node.value if _reads_as(node, value) else None


def _reads_as(node: yaml.Node | None, value: object) -> bool:
    if not isinstance(node, yaml.ScalarNode) or node.style:
        return False
    read = yaml.load(node.value, Loader=_Plain)
    return type(read) is type(value) and (read == value or read != read)


def _in_words(error: yaml.YAMLError) -> str:
    """The error's message without the excerpt of the document."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return cut(str(error))
    parts = [cut(part) for part in (error.context, error.problem) if part]
    mark = error.problem_mark or error.context_mark
    return ", ".join(parts) + (f", line {mark.line + 1}, column {mark.column + 1}" if mark else "")
