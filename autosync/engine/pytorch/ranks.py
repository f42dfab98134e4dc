"""The ranks of a session as the session sees them: each call goes to all of them at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Protocol, TypeVar, final

import torch

from autosync.engine.pytorch.capture import CapturedModule
from autosync.engine.pytorch.local_transport import LocalTransport, local_group
from autosync.engine.pytorch.rank import Rank, TakenStep
from autosync.engine.pytorch.state import Tensors
from autosync.spec import ClusterSpec, Strategy

Result = TypeVar("Result")


class Ranks(Protocol):
    """All ranks of a session. Every method returns once all ranks are done, and raises the error of one that failed."""

    def realize(self, strategy: Strategy, trains: bool) -> None:
        """Begin again from the captured values, under `strategy`; see `Rank.realize`. Raises `SpecError`."""
        ...

    def record(self) -> None:
        """Record the real steps that paced passes replay."""
        ...

    def begin_step(self, seconds: Sequence[float] | None, is_held: bool) -> None:
        """Have each rank take a step after its last one; `seconds` has the length of each rank's pass if passes are
        paced."""
        ...

    def end_step(self) -> list[TakenStep]:
        """Wait for the first step that has begun and has not ended."""
        ...

    def values(self, rank: int) -> dict[str, torch.Tensor]:
        """Copies of a rank's parameters and buffers, by name."""
        ...

    def state(self) -> Tensors:
        """The state of all ranks as named tensors. Raises `SpecError` if the optimizer's cannot be told."""
        ...

    def load_state(self, tensors: Mapping[str, torch.Tensor], steps: int) -> None:
        """Go on from a state of all ranks after `steps` steps."""
        ...

    def end(self) -> None:
        """End the strategy that runs, if one does."""
        ...

    def close(self) -> None:
        """End the strategy and the connections among the ranks."""
        ...


@final
class LocalRanks:
    """Ranks in this process, each with a thread of its own for its steps."""

    def __init__(self, captured: CapturedModule, cluster: ClusterSpec) -> None:
        self._captured, self._cluster = captured, cluster
        self._group: list[LocalTransport] = []
        self._ranks: list[Rank] = []
        self._steps: deque[list[Future[TakenStep]]] = deque()
        """The steps that have begun and have not ended."""
        self._threads = [ThreadPoolExecutor(max_workers=1) for _ in cluster.replica_devices]

    def realize(self, strategy: Strategy, trains: bool) -> None:
        if not self._group or any(transport.error for transport in self._group):
            self._restart()
        self._on_all([partial(rank.realize, strategy, trains) for rank in self._ranks])

    def record(self) -> None:
        self._on_all([rank.record for rank in self._ranks])

    def begin_step(self, seconds: Sequence[float] | None, is_held: bool) -> None:
        lengths = [None] * len(self._ranks) if seconds is None else seconds
        acts = [partial(rank.step, length, is_held) for rank, length in zip(self._ranks, lengths, strict=True)]
        self._steps.append(self._begin_on_all(acts))

    def end_step(self) -> list[TakenStep]:
        return _results(self._steps.popleft())

    def values(self, rank: int) -> dict[str, torch.Tensor]:
        return self._ranks[rank].values()

    def state(self) -> Tensors:
        states = self._on_all([rank.state for rank in self._ranks])
        return {name: tensor for state in states for name, tensor in state.items()}

    def load_state(self, tensors: Mapping[str, torch.Tensor], steps: int) -> None:
        self._on_all([partial(rank.load_state, tensors, steps) for rank in self._ranks])

    def end(self) -> None:
        self._on_all([rank.end for rank in self._ranks])

    def close(self) -> None:
        self.end()
        for transport in self._group:
            transport.close()
        self._group = []

    def _restart(self) -> None:
        """Make a new group; a transport that has failed stays failed."""
        self.close()
        self._group = local_group(len(self._threads))
        self._ranks = [Rank(self._captured, self._cluster, transport) for transport in self._group]

    def _on_all(self, acts: Sequence[Callable[[], Result]]) -> list[Result]:
        return _results(self._begin_on_all(acts))

    def _begin_on_all(self, acts: Sequence[Callable[[], Result]]) -> list[Future[Result]]:
        return [thread.submit(act) for thread, act in zip(self._threads, acts, strict=False)]


def _results(futures: Sequence[Future[Result]]) -> list[Result]:
    wait(futures)  # all, before the error of one of them is raised
    return [future.result() for future in futures]
