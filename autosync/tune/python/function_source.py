"""Makes a module of a function that only this process can import: of a script's `__main__`, or of a notebook."""

from __future__ import annotations
import __future__

import ast
import builtins
import inspect
import linecache
import symtable
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any, final

from autosync.errors import ModelError

MAIN = "__main__"

HEADER = '"""The model function of a search, which autosync copied from the program that began the search."""'


def module_text(function: FunctionType) -> str:
    """A module's text with `function` and everything in `__main__` that it uses. Raises `ModelError`.

    Imported names become imports, functions and classes are copied, and numbers, texts and containers of them are
    written down.
    """
    if names := ", ".join(map(repr, _inner_function(function).__code__.co_freevars)):
        raise ModelError(
            f"The function {function.__name__!r} uses {names} of the function around it, which other processes do not "
            "have; define it at the top level of the script or notebook."
        )
    copied = _Copied(function)
    copied.add(function.__name__, function)
    parts = [HEADER, "\n".join(copied.imports), "\n".join(copied.constants), *copied.definitions]
    return "\n\n\n".join(filter(None, parts)) + "\n"


@final
class _Copied:
    """The parts of the module: a function, and everything that it uses."""

    def __init__(self, function: FunctionType) -> None:
        self._function = function.__name__
        inner = _inner_function(function)
        self._globals = inner.__globals__
        self._names: set[str] = set()
        is_postponed = inner.__code__.co_flags & __future__.annotations.compiler_flag
        self.imports = ["from __future__ import annotations"] if is_postponed else []
        self.constants: list[str] = []
        self.definitions: list[str] = []

    def add(self, name: str, value: Any) -> None:
        """Add `value`, the global called `name`, after everything that it uses."""
        if name in self._names:
            return
        self._names.add(name)
        if isinstance(value, ModuleType):
            self._add_module(name, value)
        elif isinstance(value, FunctionType | type) and value.__module__ == MAIN:
            self._add_definition(name, value)
        elif _is_literal(value):
            self.constants.append(f"{name} = {value!r}")
        elif (place := _place_of(name, value)) is not None:
            self.imports.append(f"from {place[0]} import {_import_name(place[1], name)}")
        else:
            raise ModelError(
                f"The function {self._function!r} uses {name!r}, a {type(value).__name__} that only this process has; "
                "make it inside the function, or put the function into a module and pass 'module:function'."
            )

    def _add_module(self, name: str, module: ModuleType) -> None:
        if module.__spec__ is None:
            raise ModelError(
                f"The function {self._function!r} uses the module {name!r}, which other processes cannot import; put "
                "it into a file."
            )
        self.imports.append(f"import {_import_name(module.__name__, name)}")

    def _add_definition(self, name: str, value: FunctionType | type) -> None:
        text = _definition(value, self._function)
        for used in _global_names(text):
            if used in self._globals and used != name:
                self.add(used, self._globals[used])
        for module in self._submodules(text):
            if (line := f"import {module}") not in self.imports:
                self.imports.append(line)
        self.definitions.append(text if value.__name__ == name else f"{text}\n\n\n{name} = {value.__name__}")

    def _submodules(self, text: str) -> Iterator[str]:
        """The loaded submodules that `text` reaches through a module, as in `xml.dom.minidom` after that import."""
        for node in ast.walk(ast.parse(text)):
            root, *attributes = ast.unparse(node).split(".") if isinstance(node, ast.Attribute) else [""]
            module = self._globals.get(root)
            if isinstance(module, ModuleType):
                dotted = ".".join([module.__name__, *attributes])
                if isinstance(sys.modules.get(dotted), ModuleType):
                    yield dotted


def _inner_function(function: FunctionType) -> FunctionType:
    """The function inside the decorators that `functools.wraps` has marked."""
    inner: Any = inspect.unwrap(function)
    return inner


def _import_name(imported: str, name: str) -> str:
    return imported if imported == name else f"{imported} as {name}"


def _is_literal(value: Any) -> bool:
    """Whether the text of `value` makes an equal value, as that of numbers, texts and containers of them does."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


def _place_of(name: str, value: Any) -> tuple[str, str] | None:
    """A module that other processes can import, and the name of `value` there; None if there is none."""
    package = str(getattr(value, "__module__", None) or type(value).__module__).partition(".")[0]
    for attribute in dict.fromkeys((str(getattr(value, "__name__", name)), name)):
        places = [
            module
            for module, loaded in list(sys.modules.items())
            if module != MAIN
            and isinstance(loaded, ModuleType)
            and vars(loaded).get("__spec__") is not None
            and vars(loaded).get(attribute) is value
        ]
        if places:
            return min(places, key=lambda module: _distance(module, package)), attribute
    return None


def _distance(module: str, package: str) -> tuple[bool, bool, int, str]:
    """A key that is least for the public module of `package` with the shortest name."""
    parts = module.split(".")
    return parts[0] != package, any(part.startswith("_") for part in parts), len(parts), module


def _definition(value: FunctionType | type, function: str) -> str:
    """The source of `value`, with its decorators. Raises `ModelError`."""
    places: list[tuple[str, int | None]] = [(code.co_filename, code.co_firstlineno) for code in _codes(value)]
    for file, line in places or [(file, None) for file in _latest_files()]:
        text = "".join(linecache.getlines(file))
        if value.__name__ not in text:
            continue
        for first, last in _ranges(text, value.__name__):
            if line is None or first <= line <= last:
                return textwrap.dedent("\n".join(text.splitlines()[first - 1 : last]))
    raise ModelError(
        f"The source of {value.__name__!r}, which the function {function!r} uses, cannot be found; put the function "
        "into a module and pass 'module:function'."
    )


def _ranges(text: str, name: str) -> Iterator[tuple[int, int]]:
    """The first and the last line, decorators included, of the definitions called `name`; none in a broken `text`."""
    with suppress(SyntaxError):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                yield first, node.end_lineno or first


def _latest_files() -> list[str]:
    """The script, and the cells of a notebook, latest first; for a class without methods, which names no file."""
    script = getattr(sys.modules.get(MAIN), "__file__", None)
    return [*([script] if script else []), *reversed(list(linecache.cache))]


def _codes(value: FunctionType | type) -> Iterator[CodeType]:
    """The code of a function, or of the methods of a class."""
    for member in [value] if isinstance(value, FunctionType) else list(vars(value).values()):
        method = inspect.unwrap(getattr(member, "__func__", None) or getattr(member, "fget", None) or member)
        if isinstance(method, FunctionType):
            yield method.__code__


def _global_names(text: str) -> list[str]:
    """The global names that a definition uses, when it is made or when it is called; sorted, without builtins."""
    names: set[str] = set()
    tables = [symtable.symtable(text, "definition", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        is_top = table.get_type() == "module"
        names.update(
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (is_top or symbol.is_global())
        )
    return sorted(names - set(dir(builtins)))
