"""The contenders for whole training steps of one model: autosync's baselines, DDP, `MultiWorkerMirroredStrategy`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, final

from autosync.baselines import BASELINES
from autosync.cost import traffic
from autosync.spec import AllReduce, ClusterSpec, ModelSpec, Strategy, VariableStrategy
from studies.by_hand.peers.engine import MEMBER, EngineDriver, start_engine
from studies.by_hand.peers.host_processes import HostProcesses
from studies.by_hand.peers.rivals import start_ddp, start_mirrored
from studies.by_hand.peers.turns import TimedContender
from trials.emulate import Emulated

__all__ = ["Field", "FieldEntry", "busiest_link_bytes", "busiest_link_seconds", "field_of"]

SETTLING_STEPS = 2
"""Untimed steps, because DDP rebuilds its buckets after the first step, and caches fill."""


@dataclass(frozen=True)
class FieldEntry:
    """A contender and its system. `least_bytes` are computed for its busiest link; None if they can only be counted."""

    system: str
    contender: TimedContender
    least_bytes: float | None


@final
class Field:
    """All contenders for one model on one cluster."""

    def __init__(
        self, task: str, engine: EngineDriver, crews: dict[str, HostProcesses], added: Sequence[Strategy]
    ) -> None:
        self._task = task
        self._engine = engine
        self._crews = crews
        self.model: ModelSpec = engine.load(task)
        self._check_same_variables()
        _prepare_alone(crews["alone"], task, self.model)
        self._strategies = _distinct(self.model, engine.cluster, added)

    def entries(self) -> list[FieldEntry]:
        """Return all contenders that train."""
        return [self._of_strategy(name, strategy) for name, strategy in self._strategies.items()] + [
            FieldEntry("mwms", self._of_crew("mwms", "mwms", alone=False), self._ring_bytes),
            *self._ddp_entries(),
        ]

    def computing(self) -> dict[str, TimedContender]:
        """Return a contender per system whose replicas compute in parallel without reducing gradients."""
        crew = self._crews["alone"]
        return {
            "autosync": _contender("autosync alone", crew, {}, None, _seconds_apart),
            "mwms": self._of_crew("mwms alone", "mwms", alone=True),
            "ddp": self._of_crew("ddp alone", "ddp", alone=True),
        }

    @property
    def _ring_bytes(self) -> float | None:
        """The bytes that a ring sends over a link; None with sparse gradients, which each system sends in its own
        form."""
        if any(variable.sparse for variable in self.model.variables):
            return None
        count = len(self._engine.cluster.nodes)
        return 2 * (count - 1) / count * float(self.model.gradient_bytes)

    def _ddp_entries(self) -> list[FieldEntry]:
        ways: dict[str, dict[str, Any]] = {"ddp": {}, "ddp, buckets of 1 MB": {"bucket_mb": 1}}
        if any(variable.sparse for variable in self.model.variables):
            ways["ddp, sparse tables"] = {"sparse": True}
        return [
            FieldEntry("ddp", self._of_crew(name, "ddp", alone=False, **options), self._ring_bytes)
            for name, options in ways.items()
        ]

    def _of_crew(self, name: str, crew: str, alone: bool, **options: Any) -> TimedContender:
        loaded = {"task": self._task, **({"sparse": False, "bucket_mb": None} | options if crew == "ddp" else {})}
        # A Keras model under the strategy takes seconds to build, so it is built once; DDP is loaded for every turn.
        seconds = _seconds_apart if alone else _seconds_together
        return _contender(name, self._crews[crew], {"alone": alone}, loaded if crew == "ddp" else None, seconds)

    def _of_strategy(self, name: str, strategy: Strategy) -> FieldEntry:
        engine = self._engine

        def prepare() -> dict[str, float]:
            seconds = engine.realize(strategy)
            engine.run(SETTLING_STEPS, 0)
            return seconds

        contender = TimedContender(
            name, prepare, lambda steps: engine.run(0, steps)["step_seconds"], engine.cpu_seconds
        )
        return FieldEntry("autosync", contender, busiest_link_bytes(self.model, engine.cluster, strategy))

    def _check_same_variables(self) -> None:
        """Assert that all systems train the same architecture, variable by variable."""
        wanted = sorted(variable.elements for variable in self.model.variables)
        loaded = {
            "mwms": self._crews["mwms"].ask("load", task=self._task),
            "ddp": self._crews["ddp"].ask("load", task=self._task, sparse=False, bucket_mb=None),
        }
        for name, answers in loaded.items():
            assert sorted(answers[0]["elements"]) == wanted, f"{name} must train the same {self._task}."


def _prepare_alone(crew: HostProcesses, task: str, model: ModelSpec) -> None:
    """Give each process a single replica: the same graph, without other replicas to reduce with."""
    cluster = ClusterSpec.from_json(crew.ask("devices", workers=1)[0])
    crew.ask("load", task=task)
    alone = [VariableStrategy(variable.name, (AllReduce(0),)) for variable in model.variables]
    strategy = Strategy((str(cluster.replica_devices[0]),), tuple(alone))
    crew.ask("realize", strategy=strategy.to_json())


Seconds = list[list[float]]  # by process and step


def _seconds_together(of_processes: Seconds) -> list[float]:
    """Return the seconds of each step, in which processes wait for each other."""
    return [max(of_step) for of_step in zip(*of_processes, strict=True)]


def _seconds_apart(of_processes: Seconds) -> list[float]:
    """Return the mean seconds of a step of the slowest process.

    Processes that do not wait for each other share cores in time slices, so a single step is very short or takes
    several slices.
    """
    return [max(statistics.fmean(seconds) for seconds in of_processes)]


def _contender(
    name: str,
    crew: HostProcesses,
    fields: dict[str, Any],
    loaded: dict[str, Any] | None,
    seconds: Callable[[Seconds], list[float]],
) -> TimedContender:
    def prepare() -> None:
        if loaded:
            crew.ask("load", **loaded)
        crew.ask("run", warmup=SETTLING_STEPS, steps=0, **fields)

    def run(steps: int) -> list[float]:
        return seconds([reply["step_seconds"] for reply in crew.ask("run", warmup=0, steps=steps, **fields)])

    return TimedContender(name, prepare, run, crew.cpu_seconds)


def _distinct(model: ModelSpec, cluster: ClusterSpec, added: Sequence[Strategy]) -> dict[str, Strategy]:
    """Return the baselines that differ on the cluster, by name, followed by the added strategies."""
    names: dict[Strategy, str] = {}
    for name, baseline in BASELINES.items():
        names.setdefault(baseline(model, cluster), name)
    return {name: strategy for strategy, name in names.items()} | {
        f"given {index}": strategy for index, strategy in enumerate(added)
    }


def busiest_link_seconds(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> float:
    """Compute the seconds that the busiest link needs for a step of the strategy."""
    moved = traffic(model, cluster, strategy).bytes
    return max(
        count / link.bytes_per_second
        for link, count in zip(cluster.links, moved, strict=True)
        if link.source != link.target
    )


def busiest_link_bytes(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> float:
    """Compute the bytes that a step of the strategy sends over its busiest link."""
    moved = traffic(model, cluster, strategy).bytes
    return float(max(count for link, count in zip(cluster.links, moved, strict=True) if link.source != link.target))


@contextmanager
def field_of(made: Emulated, task: str, added: Sequence[Strategy] = ()) -> Iterator[Field]:
    """Start all contenders' processes in the hosts, and end them with the block."""
    with ExitStack() as stack:
        crews = {
            "mwms": stack.enter_context(start_mirrored(made.hosts)),
            "ddp": stack.enter_context(start_ddp(made.hosts)),
            "alone": stack.enter_context(HostProcesses(made.hosts, MEMBER, ["client"])),
        }
        yield Field(task, stack.enter_context(start_engine(made)), crews, added)
