"""The engines by name. An engine's module is imported on demand, and the import loads no framework."""

import platform
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

from autosync.errors import ModelError, SpecError

if TYPE_CHECKING:  # commands import this module before they check their options, and the contract would load NumPy
    from autosync.engine.core.contract import Engine

DEFAULT = "tensorflow"
"""The engine of records that do not name one."""

ENGINES: Mapping[str, str] = MappingProxyType(
    {
        "tensorflow": "autosync.engine.tensorflow.engine:TensorFlowEngine",
        "pytorch": "autosync.engine.pytorch.engine:PyTorchEngine",
    }
)
"""The module and the class of each engine."""

EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType({"tensorflow": ("tensorflow", "keras")})
"""The packages of the engines that are an extra of the distribution, which has the engine's name."""


def name_in_records(name: str) -> str | None:
    """The name of an engine in records: None for the default engine."""
    return None if name == DEFAULT else name


def engine_named(name: str = DEFAULT) -> "Engine":
    """Return the engine called `name`. Raises `SpecError` for an unknown name."""
    if name not in ENGINES:
        raise SpecError(f"No engine is called {name!r}; the engines are {', '.join(ENGINES)}.")
    return _engine(name)


def check_engine_installed(name: str | None = DEFAULT) -> None:
    """Raise `ModelError` if a package of the engine called `name` is not installed; None needs no package."""
    if missing := [package for package in EXTRAS.get(name or "", ()) if find_spec(package) is None]:
        raise ModelError(
            f"Framework {name!r} needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
            f"installed on {platform.node()}; run `pip install 'autosync-dp[{name}]'` there, or use a PyTorch model "
            "(docs/pytorch.md)."
        )


@cache
def _engine(name: str) -> "Engine":
    module, _, engine = ENGINES[name].partition(":")
    return cast("Engine", getattr(import_module(module), engine)())
