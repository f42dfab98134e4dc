"""The source as a tree of files to inspect, without importing any of them."""

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

__all__ = ["PACKAGES", "ROOT", "imports", "modules", "parsed", "project", "sources"]

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("autosync", "search_spaces", "trials")
"""The installed packages."""


def modules(*folders: str) -> list[Path]:
    """Return the Python files under `folders` of the project, as paths relative to its root."""
    return sorted(file.relative_to(ROOT) for folder in folders for file in (ROOT / folder).rglob("*.py"))


def sources() -> list[Path]:
    """Return the modules of the packages and of the studies, without the studies' scripts."""
    return [module for module in modules(*PACKAGES, "studies") if module.parts[:2] != ("studies", "by_hand")]


@cache
def parsed(module: Path) -> ast.Module:
    return ast.parse((ROOT / module).read_text(encoding="utf-8"), str(module))


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names of all imports in `tree`; `from a import b` gives a.b."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


@cache
def project() -> dict[str, Any]:
    """Return the content of pyproject.toml."""
    document: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return document
