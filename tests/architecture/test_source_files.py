"""Conventions of every source file."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGES, imports, modules, parsed, sources

SOURCE = sources()
EVERYTHING = modules(*PACKAGES, "studies", "tests")
ROOT = Path(__file__).parents[2]
LONGEST = 400
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


def exported(tree: ast.Module) -> list[str] | None:
    """Return the names in `__all__`, or None if there is none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return None


def bound(tree: ast.Module) -> Iterator[str]:
    """Yield the names bound at the module's top level."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((name.asname or name.name).partition(".")[0] for name in node.names)
        elif isinstance(node, ast.Assign):
            yield from (part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name))
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":  # loaded by __getattr__
            yield from (name.asname or name.name for statement in node.body for name in statement.names)  # type: ignore[attr-defined]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def in_order(names: list[str]) -> list[str]:
    """Constants, then classes, then functions, each by name: the order of ruff's rule RUF022."""
    return sorted(names, key=lambda name: (len(name) == 1 or not name.isupper(), not name[0].isupper(), name))


def faults_of_exports(tree: ast.Module) -> list[str]:
    names = exported(tree) or []
    faults = [f"__all__ names {name}, which does not exist" for name in names if name not in set(bound(tree))]
    if names != in_order(names):
        faults.append(f"__all__ is not sorted; it should be {in_order(names)}")
    return faults


def private_names_taken(tree: ast.Module) -> list[str]:
    """Return the imports in `tree` of private names from other modules of the project."""
    return [
        f"takes {name.name} from {node.module}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES
        for name in node.names
        if name.name.startswith("_")
    ]


def pickles(tree: ast.Module) -> list[str]:
    """Return the places where `tree` could read or write a pickle."""
    faults = [f"imports {name}" for name in imports(tree) if name.partition(".")[0] in PICKLES or name == "torch.load"]
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                faults.append("allows pickle")
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("torch.load", "torch.save"):
            faults.append(f"calls {ast.unparse(node)}")
    return faults


def test_the_files_are_found() -> None:
    assert {Path("autosync/spec/strategy.py"), Path("search_spaces/tiny.py"), Path("trials/trial.py")} <= set(SOURCE)
    assert Path("tests/architecture/test_source_files.py") in EVERYTHING


def test_a_module_says_what_lives_in_it() -> None:
    assert [file for file in SOURCE if not (ast.get_docstring(parsed(file)) or "").strip()] == []


def test_exports_exist_and_private_names_begin_with_an_underscore() -> None:
    """Package faces list their re-exports, as ruff requires; other modules export all names without an underscore."""
    assert {str(file): faults for file in SOURCE if (faults := faults_of_exports(parsed(file)))} == {}
    assert {str(file): taken for file in SOURCE if (taken := private_names_taken(parsed(file)))} == {}


def test_a_private_name_that_is_taken_is_found_out() -> None:
    taken = private_names_taken(ast.parse("from autosync.a import b, _c\nfrom os import _exit"))
    assert taken == ["takes _c from autosync.a"]


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("__all__ = ['b', 'a']\na = b = 1", "__all__ is not sorted; it should be ['a', 'b']"),
        ("__all__ = ['a', 'B', 'CC']\na = B = CC = 1", "__all__ is not sorted; it should be ['CC', 'B', 'a']"),
        ("__all__ = ['a']", "__all__ names a, which does not exist"),
    ],
)
def test_wrong_exports_are_found_out(source: str, fault: str) -> None:
    assert faults_of_exports(ast.parse(source)) == [fault]


def test_right_exports_are_let_pass() -> None:
    source = "from a import B\n__all__ = ['C_C', 'B', 'd']\nC_C: int = 1\ndef d(): ...\ndef _e(): ..."
    assert faults_of_exports(ast.parse(source)) == []


def test_no_file_is_too_long_or_named_after_nothing() -> None:
    lines = {file: len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in EVERYTHING}
    assert {str(file): count for file, count in lines.items() if count > LONGEST} == {}
    assert [file for file in EVERYTHING if file.stem in EMPTY_NAMES] == []


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or indirectly, including typing imports
    (Tarjan).
    """
    groups: list[list[str]] = []
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for imported in sorted(graph[name]):
            if imported not in index:
                visit(imported)
            if imported in stack:
                low[name] = min(low[name], low[imported])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                groups.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return groups


def imported_modules(files: list[Path]) -> dict[str, set[str]]:
    """Return, for each module of `files`, the other modules of `files` that it imports anywhere."""
    names = {module_name(file): file for file in files}
    return {
        name: {
            module
            for imported in imports(parsed(file))
            for module in [imported if imported in names else imported.rpartition(".")[0]]
            if module in names and module != name
        }
        for name, file in names.items()
    }


def module_name(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_modules_import_each_other() -> None:
    sys.setrecursionlimit(5000)
    assert circles(imported_modules(SOURCE)) == []


def test_a_circle_is_found_out() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]


def test_nothing_is_pickled() -> None:
    assert {str(file): places for file in SOURCE if (places := pickles(parsed(file)))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "def f():\n    from cloudpickle import dumps",
        "np.load(file, allow_pickle=True)",
        "np.load(file, allow_pickle=anything)",
        "import torch\ntorch.load(file)",
        "from torch import load",
    ],
)
def test_a_pickle_is_found_out(source: str) -> None:
    assert len(pickles(ast.parse(source))) == 1


@pytest.mark.parametrize(
    "module", [module for module in modules("search_spaces") if module.stem != "__init__"], ids=str
)
def test_a_declared_space_is_inert(module: Path) -> None:
    """A declared space holds a docstring, imports, and one constant."""
    docstring, *rest = parsed(module).body
    *imported, constant = rest
    assert isinstance(docstring, ast.Expr)
    assert all(isinstance(node, ast.ImportFrom) for node in imported)
    assert isinstance(constant, ast.Assign)
    assert ast.unparse(constant.targets[0]) == ("MENU" if "menus" in module.parts else "SPACE")
    computed = ast.IfExp | ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp
    assert not any(isinstance(node, computed) for node in ast.walk(constant))
