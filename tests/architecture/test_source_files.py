"""Habits that every source file keeps."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source_tree import PACKAGES, imports, modules, parsed

SOURCE = modules(*PACKAGES)
EVERYTHING = modules(*PACKAGES, "tests")
ROOT = Path(__file__).parents[2]
LONGEST_FILE, LONGEST_TEST = 300, 400
EMPTY_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


def exported(tree: ast.Module) -> list[str] | None:
    """What `__all__` lists, or None when there is none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return list(ast.literal_eval(node.value))
    return None


def bound(tree: ast.Module) -> Iterator[str]:
    """Names that the module's top level binds."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((each.asname or each.name).partition(".")[0] for each in node.names)
        elif isinstance(node, ast.Assign):
            yield from (each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def in_order(names: list[str]) -> list[str]:
    """Constants, then classes, then functions, each by name: the order that ruff's RUF022 asks for."""
    return sorted(names, key=lambda name: (len(name) == 1 or not name.isupper(), not name[0].isupper(), name))


def faults_of_exports(tree: ast.Module) -> list[str]:
    names = exported(tree) or []
    faults = [f"__all__ names {name}, which does not exist" for name in names if name not in set(bound(tree))]
    if names != in_order(names):
        faults.append(f"__all__ is not sorted; it should be {in_order(names)}")
    return faults


def private_names_taken(tree: ast.Module) -> list[str]:
    """What `tree` imports from other modules of ours though it is called as what is for these alone."""
    return [
        f"takes {each.name} from {node.module}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES
        for each in node.names
        if each.name.startswith("_")
    ]


def pickles(tree: ast.Module) -> list[str]:
    """The places where `tree` could read or write a pickle."""
    found = [f"imports {name}" for name in imports(tree) if name.partition(".")[0] in PICKLES or name == "torch.load"]
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            if not (isinstance(node.value, ast.Constant) and node.value.value is False):
                found.append("allows pickle")
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in ("torch.load", "torch.save"):
            found.append(f"calls {ast.unparse(node)}")
    return found


def test_the_files_are_found() -> None:
    assert {Path("autosync/spec/strategy.py"), Path("search_spaces/tiny.py"), Path("trials/trial.py")} <= set(SOURCE)
    assert Path("tests/architecture/test_source_files.py") in EVERYTHING


def test_a_module_says_what_lives_in_it() -> None:
    assert [each for each in SOURCE if not (ast.get_docstring(parsed(each)) or "").strip()] == []


def test_what_a_module_offers_is_there_and_the_rest_begins_with_an_underscore() -> None:
    """Faces list what they hand on, which ruff asks of them; other modules offer all whose name has no underscore."""
    assert {str(each): faults for each in SOURCE if (faults := faults_of_exports(parsed(each)))} == {}
    assert {str(each): taken for each in SOURCE if (taken := private_names_taken(parsed(each)))} == {}


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
    lines = {each: len((ROOT / each).read_text(encoding="utf-8").splitlines()) for each in EVERYTHING}
    most = {each: LONGEST_TEST if each.parts[0] == "tests" else LONGEST_FILE for each in EVERYTHING}
    assert {str(each): count for each, count in lines.items() if count > most[each]} == {}
    assert [each for each in EVERYTHING if each.stem in EMPTY_NAMES] == []


def test_nothing_is_pickled() -> None:
    assert {str(each): found for each in SOURCE if (found := pickles(parsed(each)))} == {}


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
    """It holds a docstring, imports, and one constant."""
    docstring, *rest = parsed(module).body
    *imported, constant = rest
    assert isinstance(docstring, ast.Expr)
    assert all(isinstance(node, ast.ImportFrom) for node in imported)
    assert isinstance(constant, ast.Assign)
    assert ast.unparse(constant.targets[0]) == ("MENU" if "menus" in module.parts else "SPACE")
    computed = ast.IfExp | ast.Lambda | ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp
    assert not any(isinstance(node, computed) for node in ast.walk(constant))
