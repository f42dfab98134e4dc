"""Engines by name: each keeps the contract, and creating one loads no framework."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.util import find_spec

import pytest

from autosync.engine.core import contract, registry
from autosync.engine.core.registry import DEFAULT, ENGINES, check_engine_installed, engine_named
from autosync.engine.core.versions import VERSIONS
from autosync.errors import ModelError, SpecError
from tests.architecture.source_tree import ROOT

METHODS = {
    name: method for name, method in vars(contract.Engine).items() if inspect.isfunction(method) and name[0] != "_"
}
FIELDS = set(inspect.get_annotations(contract.Engine))


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_has_all_that_the_contract_asks_for(name: str) -> None:
    engine = engine_named(name)
    assert {field for field in FIELDS if not hasattr(engine, field)} == set()
    for method, asked in METHODS.items():
        offered = inspect.signature(getattr(type(engine), method))
        assert list(offered.parameters) == list(inspect.signature(asked).parameters), method
    assert engine.name == name
    assert engine.version == VERSIONS[name]


def test_every_engine_has_a_version_and_the_default_is_one() -> None:
    assert set(VERSIONS) == set(ENGINES)
    assert DEFAULT in ENGINES
    assert engine_named() is engine_named(DEFAULT)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(SpecError, match=r"No engine is called 'mxnet'; the engines are tensorflow"):
        engine_named("mxnet")


def test_a_missing_package_of_an_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for framework in ENGINES:
        check_engine_installed(framework)
    monkeypatch.setattr(registry, "find_spec", lambda module: None if module == "keras" else find_spec(module))
    check_engine_installed("pytorch")
    with pytest.raises(
        ModelError, match=r"^Framework 'tensorflow' needs keras, which is not installed on .*\[tensorflow\]"
    ):
        check_engine_installed("tensorflow")


def test_to_have_every_engine_loads_no_framework() -> None:
    code = (
        "import sys\n"
        "from autosync.engine.core.registry import ENGINES, engine_named\n"
        "for name in ENGINES: engine_named(name)\n"
        "import trials.workers.processes, trials.opening, trials.capture_in_subprocess\n"
        "print({'tensorflow', 'keras', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
