"""The contract of an engine: the interface that trials, training and controllers use, in any framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from autosync.engine.core.pacing import Waits
from autosync.engine.core.prefetch import Reader, Spec
from autosync.engine.core.step_state import StepState
from autosync.engine.core.timetable import TakenPasses
from autosync.numeric import AnyArray
from autosync.spec import ClusterSpec, Decision, ModelSpec, StepReport, Strategy

Pause = Callable[[int, int], None]
"""A function of (replica, step) that runs in the replica's thread before a pass begins; for tests and emulation."""


class StatefulStep(Protocol):
    """A realized strategy, whose state can be saved and loaded."""

    strategy: Strategy
    seed: int
    """The seed of the lengths of paced passes."""

    @property
    def taken(self) -> Sequence[TakenPasses]:
        """The passes of every step so far if passes are paced; otherwise empty."""
        ...

    @property
    def recorded_steps(self) -> int:
        """The number of recorded steps whose gradients are replayed; 0 if gradients are computed."""
        ...

    def clock(self) -> float:
        """The time of steps in seconds, which may be virtual."""
        ...

    def values(self, replica: int = 0) -> dict[str, AnyArray]:
        """The values of all variables on replica `replica`."""
        ...

    def state(self) -> StepState:
        """Return everything that the next step depends on."""
        ...

    def load(self, state: StepState) -> None:
        """Continue from `state`. Raises `SpecError` if the state belongs to another model or strategy."""
        ...

    def settle(self) -> None:
        """Wait until no pass and no update is running."""
        ...

    def close(self) -> None:
        """Stop all threads that run between calls."""
        ...

    def take_metrics(self) -> tuple[AnyArray, ...]:
        """Return the states of the model's metrics, summed over replicas, and reset the metrics."""
        ...


class TrainingStep(StatefulStep, Protocol):
    """A strategy that trains: each call takes one step."""

    report: StepReport | None
    """The report of the last step if a controller decides; otherwise None."""
    controller_seconds: float
    """Seconds that the controller has taken so far."""

    def __call__(self) -> float:
        """Take one step on the replicas' own synthetic batches; return the mean loss before the update."""
        ...

    def on(self, batches: Sequence[Sequence[Any]], weights: Sequence[float] | None = None) -> float:
        """Take one step on given flat batches, one a replica; return the mean loss before the update.

        `weights` are the weights of the replicas' losses and gradients, and average 1. If batches differ in size, a
        weight is the replica's share of the examples times the number of replicas.
        """
        ...

    def warm_up(self) -> None:
        """Take steps of every kind that can occur, as a warm-up; `load` an earlier state to undo them."""
        ...


class DecidableStep(StatefulStep, Protocol):
    """A strategy that trains, and whose steps a controller decides one at a time."""

    def warm_up(self, decision: Decision) -> None:
        """Take steps of every kind that can be decided, as a warm-up; `decision` is an example."""
        ...

    def take(
        self,
        number: int,
        decision: Decision,
        batches: Sequence[Sequence[Any]] | None = None,
        weights: Sequence[float] | None = None,
    ) -> StepReport:
        """Take step `number`, counted from 0, on the replicas' own synthetic batches or on given ones."""
        ...

    def meet(self) -> None:
        """Average the replicas' parameters after a step whose decision left this open."""
        ...


class Evaluation(Protocol):
    """The loss on held-out batches."""

    def loss(self, values: Mapping[str, AnyArray], state: tuple[AnyArray, ...]) -> float:
        """The mean loss at `values`, by variable, with the untrained `state` of one replica."""
        ...


class Session(Protocol):
    """A captured model on a cluster. Every step that a session realizes starts from the same initial values."""

    cluster: ClusterSpec
    exchange: Callable[[Strategy, Decision], float] | None
    """The seconds of a strategy's exchange by decision if paced training takes virtual time; otherwise None."""

    @property
    def model(self) -> ModelSpec: ...

    def realize(self, strategy: Strategy) -> TrainingStep:
        """Place the model's variables as `strategy` says. Raises `SpecError` if the strategy does not fit."""
        ...

    def evaluation(self, replicas: int) -> Evaluation:
        """The evaluation for training on `replicas` replicas."""
        ...

    def with_real_gradients(self) -> Session:
        """A session for training: paced passes compute real gradients, and hold them until their release times."""
        ...


class Runner(Protocol):
    """The steps of a trainer, in this process or in worker processes."""

    def on(self, batches: Sequence[Sequence[Any]], counted: Sequence[int]) -> float:
        """Take one step on flat batches, one a replica; return the mean loss before the update.

        `counted` has the number of examples that count in each batch.
        """
        ...

    def own(self) -> float:
        """Take one step on the model's own synthetic batches; return the mean loss before the update."""
        ...

    def several(self, count: int) -> list[float]:
        """Take `count` steps like `own`, in one call; return the mean loss of each before its update."""
        ...

    def open_feed(self, read: Reader, specs: Sequence[Spec]) -> None:
        """Begin an epoch over data that the workers read themselves."""
        ...

    def read(self) -> int:
        """Let every replica read its next batch; return the total number of examples, 0 once all shards have ended."""
        ...

    def on_read(self) -> float:
        """Take one step on the batches that were read last; return the mean loss before the update."""
        ...

    def take_metrics(self) -> tuple[AnyArray, ...]:
        """Like `StatefulStep.take_metrics`."""
        ...

    def state(self) -> StepState:
        """Return everything that the next step depends on."""
        ...

    def load(self, state: StepState) -> None:
        """Continue from `state`. Raises `SpecError` if the state belongs to another model or strategy."""
        ...

    def pids(self) -> dict[str, int]:
        """Process ids of the client and the workers, by role; empty if there are no other processes."""
        ...

    def close(self) -> None:
        """End every process. A second call does nothing."""
        ...


class Captured(Protocol):
    """A model captured by an engine, with everything that a session needs."""

    @property
    def spec(self) -> ModelSpec: ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user on differences from plain training."""
        ...

    def to_bytes(self) -> bytes:
        """Serialize the captured model for `Engine.load_captured` in another process."""
        ...


class Transport(Protocol):
    """The engine's transport between devices, for probes. Each method returns a function that returns its seconds."""

    def flows(self, pairs: Sequence[tuple[str, str]]) -> Callable[[Sequence[int]], float]:
        """A call sends the given numbers of bytes, one a (source device, target device), along all pairs at once."""
        ...

    def hops(self, source: str, target: str, count: int) -> Callable[[], float]:
        """A call sends a scalar back and forth between `source` and `target`, `count` hops one after another."""
        ...

    def messages(self, source: str, target: str, count: int) -> Callable[[], float]:
        """A call sends `count` scalars from `source` to `target`, all at once and each as its own message."""
        ...

    def copies(self, device: str, array_bytes: int, count: int) -> Callable[[], float]:
        """A call copies an array `count` times, one after another, into fresh memory of `device`."""
        ...


class Worker(Protocol):
    """The engine's part of a worker process, whose devices carry out a client's requests."""

    @property
    def address(self) -> str:
        """The address at which the worker listens, as `host:port`."""
        ...

    @property
    def listens_on_all_interfaces(self) -> bool: ...

    def offer(self, read: Reader, shard: int, shards: int) -> str:
        """Read a shard's batches in this process; return the token by which steps ask for them.

        A new offer of a shard ends the earlier one.
        """
        ...

    def offer_waits(self) -> Waits:
        """Offer the waits that pace passes."""
        ...


class Client(Protocol):
    """The engine's part of the process that drives all workers."""

    def connect(self, addresses: Sequence[str], host: str) -> None:
        """Connect to the workers at `addresses`, again if necessary; `host` is the address of this process."""
        ...

    def transport(self, cluster: ClusterSpec) -> Transport: ...

    def session(self, captured: Captured, cluster: ClusterSpec, waits: Mapping[str, Waits] | None) -> Session:
        """Put the initial values on the workers; `waits` are the offered waits by server device if passes are paced."""
        ...

    def training(
        self, captured: Captured, cluster: ClusterSpec, strategy: Strategy, waits: Mapping[str, Waits] | None
    ) -> Runner:
        """Place the model as `strategy` says, with real gradients. Raises `SpecError` if the strategy does not fit."""
        ...


class Engine(Protocol):
    """A framework that carries out strategies. Creating an engine loads no framework; `load` does."""

    name: str
    version: int
    """The version of how the engine carries out and times steps; every record holds it."""
    packages: tuple[str, ...]
    """The distributions whose versions are stored in records."""
    title: str
    """The framework's name as it is written."""
    process_bytes: float
    """Memory of a worker process before it has a model."""
    server_name: str
    """A noun for the workers' servers, for sentences about the addresses where they listen."""
    sends_by_reads: bool
    """Whether messages of overlapping steps travel in the order in which the next forward pass reads the variables, as
    simulators assume."""
    sends_rows_apart: bool
    """Whether the engine can send the looked-up rows of tied tables apart from the rest of their gradients."""
    trials_a_connection: int | None
    """The number of trials after which the client reconnects, because workers keep memory of every step. None for
    workers that keep nothing, and that join each other again after a failed step."""

    def load(self) -> None:
        """Import the framework quietly, without parts that the project does not use."""
        ...

    def quiet_log(self) -> AbstractContextManager[None]:
        """In the block, keep log lines of the framework below the level of errors off standard error."""
        ...

    def message_of(self, error: BaseException) -> str:
        """The most informative line of an error's text, without the framework's decorations."""
        ...

    def capture(self, task: Any) -> Captured:
        """Capture a built training task of this framework. Raises `ModelError`."""
        ...

    def profile(self, captured: Captured) -> Captured:
        """Return `captured` with the times of its passes on this machine's CPU."""
        ...

    def load_captured(self, data: bytes) -> Captured:
        """Load the captured model that `Captured.to_bytes` wrote."""
        ...

    def refusals(self, strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> tuple[str, ...]:
        """The parts of a fitting strategy that this engine does not carry out, each as a clause that names the part.

        `Session.realize` refuses a strategy with such a part by a sentence with the first clause.
        """
        ...

    def use_logical_devices(self, count: int, paced_replicas: int = 0) -> None:
        """Split this process into `count` devices. Raises `ClusterError` if the framework is already in use."""
        ...

    def local_session(
        self,
        captured: Captured,
        cluster: ClusterSpec,
        exchange: Callable[[Strategy, Decision], float] | None = None,
    ) -> Session:
        """Open a session on logical devices of this process; with `exchange`, paced training takes virtual time."""
        ...

    def local_training(self, captured: Captured, cluster: ClusterSpec, strategy: Strategy) -> Runner:
        """Train on logical devices of this process, with real gradients. Raises `SpecError` for an unfit strategy."""
        ...

    def worker(self, address: str, cores: float, is_paced: bool, peers: Sequence[str], token: str) -> Worker:
        """Start to serve at `address`, with `cores` cores. Raises `ClusterError` if this machine lacks the address.

        `token` is a secret of the whole set of workers. Engines whose workers can ask a client for a secret use it.
        """
        ...

    def client(self, token: str) -> Client:
        """Return the client of this process, which has no GPU; `token` is the set's."""
        ...
