"""The source as a tree of files to look into, without importing any of it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["PACKAGES", "ROOT", "imports", "modules", "parsed", "project"]

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("autosync", "search_spaces", "trials")


def modules(*folders: str) -> list[Path]:
    """Python files under `folders` of the project, as paths relative to its root."""
    return sorted(file.relative_to(ROOT) for folder in folders for file in (ROOT / folder).rglob("*.py"))


@cache
def parsed(module: Path) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"), str(module))


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names of all that is imported anywhere in `tree`; `from a import b` gives a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)


@cache
def project() -> dict[str, Any]:
    """What pyproject.toml says."""
    document: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return document
