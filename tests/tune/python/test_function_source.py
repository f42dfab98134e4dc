"""A function of `__main__` becomes a module that another process can import, or one sentence says why not."""

from __future__ import annotations

import linecache
import threading
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from autosync.errors import ModelError
from autosync.tune.python.function_source import module_text
from autosync.tune.python.model_function import ModelFunction
from trials.workers.import_places import TAKEN


def globals_of_script(folder: Path, text: str, **more: Any) -> dict[str, Any]:
    """The globals of a script with this text, run as `__main__`; `more` are further globals."""
    script = folder / "script.py"
    script.write_text(text)
    names: dict[str, Any] = {"__name__": "__main__", **more}
    linecache.getlines(str(script))  # as for the cells of a notebook
    exec(compile(text, str(script), "exec"), names)
    return names


def globals_of_copy(text: str) -> dict[str, Any]:
    """The globals of the module with this text."""
    names: dict[str, Any] = {"__name__": TAKEN}
    exec(compile(text, f"{TAKEN}.py", "exec"), names)
    return names


SCRIPT = """
import functools
import json as text_of
import xml.dom.minidom
from collections import OrderedDict as Ordered
from pathlib import Path

WIDTHS, NAME = {"first": (3, 4)}, "net"
unused = open


def logged(function):
    @functools.wraps(function)
    def wrapper():
        return "logged", function()
    return wrapper


class Base:
    width = WIDTHS["first"]


class Layer(Base):
    @property
    def size(self) -> "Unknown":
        return [helper(number) for number in self.width]


def helper(number, times=NAME):
    return text_of.dumps(Ordered([(times, number)]))


@logged
def build():
    local = Layer()
    return local.size, Path("a").name, xml.dom.minidom.parseString("<a/>").documentElement.tagName, again


def again():
    return build
"""


def test_the_copy_computes_what_the_function_computes(tmp_path: Path) -> None:
    original = globals_of_script(tmp_path, SCRIPT)["build"]
    text = module_text(original)
    result, expected = globals_of_copy(text)["build"](), original()
    assert result[0] == "logged"
    assert result[1][:3] == expected[1][:3] == (['{"net": 3}', '{"net": 4}'], "a", "a")
    assert "unused" not in text
    assert "import json as text_of\n" in text


def test_a_copy_keeps_postponed_annotations(tmp_path: Path) -> None:
    names = globals_of_script(
        tmp_path, "from __future__ import annotations\ndef build(size: NoSuchType = 3):\n    return size\n"
    )
    assert globals_of_copy(module_text(names["build"]))["build"]() == 3


def test_a_definition_in_a_block_is_copied_alone(tmp_path: Path) -> None:
    names = globals_of_script(tmp_path, "if True:\n    def build():\n        return 1\n\n    print\n")
    assert globals_of_copy(module_text(names["build"]))["build"]() == 1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def build():\n    return live\n", "uses 'live', a lock that only this process has; make it inside"),
        (
            "def outer(x=1):\n    def build():\n        return x\n    return build\nbuild = outer()\n",
            "uses 'x' of the f",
        ),
        ("def build():\n    return made.x\n", "the module 'made', which other processes cannot import"),
    ],
)
def test_a_function_that_cannot_be_copied_is_refused_in_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    names = globals_of_script(tmp_path, text, live=threading.Lock(), made=type(pytest)("made"))
    with pytest.raises(ModelError, match=sentence):
        module_text(names["build"])


def test_a_function_without_a_source_is_refused() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("def build():\n    return 1\n", names)
    with pytest.raises(ModelError, match=r"The source of 'build'.* cannot be found; put the function into a module"):
        module_text(names["build"])


def test_a_function_of_a_module_is_named() -> None:
    assert isinstance(globals_of_script, FunctionType)
    here = Path(__file__).resolve().parents[3]
    folder = None if here == Path.cwd() else here
    assert ModelFunction.of(globals_of_script) == ModelFunction(f"{__name__}:globals_of_script", folder)
    assert ModelFunction.of("mlp") == ModelFunction("mlp")


def test_other_callables_are_refused() -> None:
    def inner() -> None: ...

    with pytest.raises(ModelError, match="made by `def`, or text such as 'module:function', not a lambda"):
        ModelFunction.of(lambda: None)
    with pytest.raises(ModelError, match="not type"):
        ModelFunction.of(dict)
    with pytest.raises(ModelError, match=r"has no 'test_other_callables_are_refused.<locals>.inner' at its top level"):
        ModelFunction.of(inner)
