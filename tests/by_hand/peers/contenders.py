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
from tests.by_hand.peers.crew import Crew
from tests.by_hand.peers.engine import MEMBER, Engine, engine_on
from tests.by_hand.peers.rivals import ddp_on, mirrored_on
from tests.by_hand.peers.turns import Contender
from trials.emulate import Emulated

__all__ = ["Entry", "Field", "busiest_link_bytes", "busiest_link_seconds", "field_of"]

SETTLING_STEPS = 2
"""Steps that do not count: DDP rebuilds its buckets after the first, and caches fill."""


@dataclass(frozen=True)
class Entry:
    """A contender, the system it belongs to, and the bytes that its busiest link must carry (None: only counted)."""

    system: str
    contender: Contender
    least_bytes: float | None


@final
class Field:
    """Everyone who takes part, for one model on one cluster."""

    def __init__(self, task: str, engine: Engine, crews: dict[str, Crew], added: Sequence[Strategy]) -> None:
        self._task = task
        self._engine = engine
        self._crews = crews
        self.model: ModelSpec = engine.load(task)
        self._check_same_variables()
        _prepare_alone(crews["alone"], task, self.model)
        self._strategies = _distinct(self.model, engine.cluster, added)

    def entries(self) -> list[Entry]:
        """The contenders that train, all together."""
        return [self._of_strategy(name, strategy) for name, strategy in self._strategies.items()] + [
            Entry("mwms", self._of_crew("mwms", "mwms", alone=False), self._ring_bytes),
            *self._ddp_entries(),
        ]

    def alone(self) -> dict[str, Contender]:
        """Contenders by system, whose steps are of all replicas at once and reduced by nobody."""
        crew = self._crews["alone"]
        return {
            "autosync": _contender("autosync alone", crew, {}, None, _seconds_apart),
            "mwms": self._of_crew("mwms alone", "mwms", alone=True),
            "ddp": self._of_crew("ddp alone", "ddp", alone=True),
        }

    @property
    def _ring_bytes(self) -> float | None:
        """What a ring makes a link carry; unknown with sparse gradients, of which each system moves its own form."""
        if any(each.sparse for each in self.model.variables):
            return None
        count = len(self._engine.cluster.nodes)
        return 2 * (count - 1) / count * float(self.model.gradient_bytes)

    def _ddp_entries(self) -> list[Entry]:
        ways: dict[str, dict[str, Any]] = {"ddp": {}, "ddp, buckets of 1 MB": {"bucket_mb": 1}}
        if any(each.sparse for each in self.model.variables):
            ways["ddp, sparse tables"] = {"sparse": True}
        return [
            Entry("ddp", self._of_crew(name, "ddp", alone=False, **options), self._ring_bytes)
            for name, options in ways.items()
        ]

    def _of_crew(self, name: str, crew: str, alone: bool, **options: Any) -> Contender:
        loaded = {"task": self._task, **({"sparse": False, "bucket_mb": None} | options if crew == "ddp" else {})}
        # Building a Keras model under the strategy takes seconds, so that is done once; DDP's buckets are made anew.
        seconds = _seconds_apart if alone else _seconds_together
        return _contender(name, self._crews[crew], {"alone": alone}, loaded if crew == "ddp" else None, seconds)

    def _of_strategy(self, name: str, strategy: Strategy) -> Entry:
        engine = self._engine

        def prepare() -> dict[str, float]:
            said = engine.realize(strategy)
            engine.run(SETTLING_STEPS, 0)
            return said

        contender = Contender(name, prepare, lambda steps: engine.run(0, steps)["step_seconds"], engine.cpu_seconds)
        return Entry("autosync", contender, busiest_link_bytes(self.model, engine.cluster, strategy))

    def _check_same_variables(self) -> None:
        """Whether all train the same architecture, variable by variable."""
        wanted = sorted(each.elements for each in self.model.variables)
        loaded = {
            "mwms": self._crews["mwms"].ask("load", task=self._task),
            "ddp": self._crews["ddp"].ask("load", task=self._task, sparse=False, bucket_mb=None),
        }
        for name, answers in loaded.items():
            assert sorted(answers[0]["elements"]) == wanted, f"{name} trains another {self._task}."


def _prepare_alone(crew: Crew, task: str, model: ModelSpec) -> None:
    """Give each process a replica that has nobody to talk to: the same graph, with nothing to reduce over."""
    cluster = ClusterSpec.from_json(crew.ask("devices", workers=1)[0])
    crew.ask("load", task=task)
    alone = [VariableStrategy(each.name, (AllReduce(0),)) for each in model.variables]
    strategy = Strategy((str(cluster.replica_devices[0]),), tuple(alone))
    crew.ask("realize", strategy=strategy.to_json())


Seconds = list[list[float]]  # by process, of each of its steps


def _seconds_together(of_processes: Seconds) -> list[float]:
    """Seconds of each step; processes wait for each other in it."""
    return [max(of_step) for of_step in zip(*of_processes, strict=True)]


def _seconds_apart(of_processes: Seconds) -> list[float]:
    """Mean seconds of a step of the slowest process.

    Processes that do not wait for each other have cores in turns, so that a step takes very little or several turns.
    """
    return [max(statistics.fmean(each) for each in of_processes)]


def _contender(
    name: str,
    crew: Crew,
    fields: dict[str, Any],
    loaded: dict[str, Any] | None,
    seconds: Callable[[Seconds], list[float]],
) -> Contender:
    def prepare() -> None:
        if loaded:
            crew.ask("load", **loaded)
        crew.ask("run", warmup=SETTLING_STEPS, steps=0, **fields)

    def run(steps: int) -> list[float]:
        return seconds([each["step_seconds"] for each in crew.ask("run", warmup=0, steps=steps, **fields)])

    return Contender(name, prepare, run, crew.cpu_seconds)


def _distinct(model: ModelSpec, cluster: ClusterSpec, added: Sequence[Strategy]) -> dict[str, Strategy]:
    """The baselines that differ here, by name, and then the strategies that were given."""
    found: dict[Strategy, str] = {}
    for name, baseline in BASELINES.items():
        found.setdefault(baseline(model, cluster), name)
    return {name: strategy for strategy, name in found.items()} | {
        f"given {index}": strategy for index, strategy in enumerate(added)
    }


def busiest_link_seconds(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> float:
    """What the link that is busy longest takes for a step of the strategy, by arithmetic."""
    moved = traffic(model, cluster, strategy).bytes
    return max(
        count / link.bytes_per_second
        for link, count in zip(cluster.links, moved, strict=True)
        if link.source != link.target
    )


def busiest_link_bytes(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy) -> float:
    """What a step of the strategy makes its busiest link carry, by arithmetic."""
    moved = traffic(model, cluster, strategy).bytes
    return float(max(count for link, count in zip(cluster.links, moved, strict=True) if link.source != link.target))


@contextmanager
def field_of(made: Emulated, task: str, added: Sequence[Strategy] = ()) -> Iterator[Field]:
    """Start everyone's processes in the hosts, and end them with the block."""
    with ExitStack() as stack:
        crews = {
            "mwms": stack.enter_context(mirrored_on(made.hosts)),
            "ddp": stack.enter_context(ddp_on(made.hosts)),
            "alone": stack.enter_context(Crew(made.hosts, MEMBER, ["client"])),
        }
        yield Field(task, stack.enter_context(engine_on(made)), crews, added)
