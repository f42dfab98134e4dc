"""An engine under test: the models of `nets.py` in its framework, their sessions, and training in one process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pytest

from autosync.engine.core.contract import Session
from autosync.engine.core.registry import engine_named
from autosync.numeric import AnyArray
from autosync.spec import ClusterSpec, ModelProfile, Strategy
from tests.engine.contracts.nets import Net, net_called


@dataclass(frozen=True)
class Case:
    """A model with an optimizer and a type of numbers."""

    name: str
    optimizer: str = "momentum"
    dtype: str = "float64"

    @property
    def net(self) -> Net:
        return net_called(self.name)


class Subject(ABC):
    """An engine under test. A new engine is a subclass, and a line in `conftest.py`."""

    name: str
    prefix: str
    """The engine's name of a variable begins with it; the model's name follows."""

    @abstractmethod
    def task(self, case: Case, replicas: int) -> Any:
        """The task of a replica, one of `replicas`."""

    @abstractmethod
    def reference(self, case: Case, replicas: int, steps: int) -> dict[str, AnyArray]:
        """The values after training in one process without autosync, on the joined batches of all replicas."""

    @abstractmethod
    def sent(self, patch: pytest.MonkeyPatch, session: Session, strategy: Strategy) -> Counter[tuple[str, str]]:
        """Bytes that a step sends from one device to another."""

    def values(self, step: Any, replica: int = 0) -> dict[str, AnyArray]:
        """The values on a replica by the model's names of variables."""
        return {name.removeprefix(self.prefix): value for name, value in step.values(replica).items()}

    def renamed(self, strategy: Strategy, other: Subject) -> Strategy:
        """A strategy for this engine's model, with the names that the variables have on another engine."""
        names = (choice.variable.removeprefix(self.prefix) for choice in strategy.variables)
        renamed = zip(strategy.variables, names, strict=True)
        return replace(
            strategy, variables=tuple(replace(choice, variable=other.prefix + name) for choice, name in renamed)
        )


@cache
def session_on(subject: Subject, case: Case, cluster: ClusterSpec) -> Session:
    """A session on devices of this process. If passes are paced, the profile's part of one is 3 ms."""
    engine = engine_named(subject.name)
    captured = engine.capture(subject.task(case, len(cluster.replica_devices)))
    variables = captured.spec.variables
    ready = {variable.name: (variable.ready_order + 1) / len(variables) for variable in variables}
    spec = replace(captured.spec, profile=ModelProfile(0.001, 0.002, ready))
    return engine.local_session(replace(captured, spec=spec), cluster)
