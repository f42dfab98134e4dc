"""The exported names of `autosync`, and the types that a user's checker sees."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import autosync
from autosync.version import VERSION
from tests.architecture.source_tree import ROOT

PLACES = {
    "AutoSyncSearcher": "autosync.tune.python.tune_searcher",
    "AutosyncError": "autosync.errors",
    "Result": "autosync.tune.python.result",
    "RuntimeRecord": "autosync.spec",
    "Search": "autosync.tune.python.search",
    "Strategy": "autosync.spec",
    "distribute": "autosync.train",
    "find_strategy": "autosync.tune.python.find_strategy",
}


def test_the_package_offers_what_it_lists() -> None:
    assert autosync.__all__ == sorted(autosync.__all__)
    assert {name: getattr(autosync, name) for name in autosync.__all__} == {
        "__version__": VERSION,
        **{name: getattr(import_module(module), name) for name, module in PLACES.items()},
    }
    assert set(autosync.__all__) <= set(dir(autosync))
    with pytest.raises(AttributeError, match="module 'autosync' has no attribute 'nonsense'"):
        _ = autosync.nonsense


def test_a_call_of_the_package_tune_names_the_function_to_call() -> None:
    call: Any = autosync.tune
    with pytest.raises(TypeError, match=r"autosync.tune is a package, not a function; call autosync.find_strategy\("):
        call(None, trials=3)
    assert pickle.loads(pickle.dumps(call)) is call


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(autosync.__file__).parent / "py.typed").exists()


SCRIPT = """
import autosync


def build() -> tuple[object, ...]:
    return ()


def watch(record: autosync.RuntimeRecord) -> None:
    print(record.label, record.median_seconds)


version: str = autosync.__version__
result: autosync.Result = autosync.find_strategy(build, cluster="cluster.yaml", seed=1, callbacks=[watch, print])
strategy: autosync.Strategy = result.strategy
speedup: float | None = result.verdict.speedup if result.verdict else None
page: str = result.report().name
result.plot_search()
search = autosync.Search(build, workers=2)
proposal = search.ask()
if proposal is not None:
    search.tell(proposal, seconds=[0.1, 0.2])
autosync.AutoSyncSearcher(search)
try:
    autosync.find_strategy("mlp", sead=1)
except autosync.AutosyncError as error:
    print(error)
"""

SKIPPED = "ray torch torch_geometric tensorflow keras pyarrow pandas matplotlib numpy scipy pydantic rich click jinja2"
SETTINGS = """
[mypy]
strict = True
python_version = 3.10
follow_imports = silent
ignore_missing_imports = True
""" + "".join(f"[mypy-{name},{name}.*]\nfollow_imports = skip\n" for name in SKIPPED.split())


def test_a_users_script_type_checks_and_a_misspelt_option_does_not(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text(SETTINGS)
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--no-error-summary", "script.py"]
    environment = os.environ | {"MYPYPATH": str(ROOT), "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    errors = [text for text in done.stdout.splitlines() if ": error: " in text]
    line = next(number for number, text in enumerate(SCRIPT.splitlines(), 1) if "sead" in text)
    assert len(errors) == 1, done.stdout + done.stderr
    assert errors[0].startswith(f'script.py:{line}: error: Unexpected keyword argument "sead" for "find_strategy"')
