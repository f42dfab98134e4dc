"""The PyTorch engine: `Engine` of `engine/core/contract.py`. This module loads no framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, final

from autosync.engine.core.contract import Client, Runner, Session, Worker
from autosync.engine.core.versions import VERSIONS
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, Decision, ModelSpec, Strategy

if TYPE_CHECKING:
    from autosync.engine.pytorch.capture import CapturedModule


@final
class PyTorchEngine:
    """Strategies by a process per replica; the processes exchange gradients during their backward passes."""

    name = "pytorch"
    version = VERSIONS["pytorch"]
    packages = ("torch",)
    title = "PyTorch"
    process_bytes = 0.4e9
    """About 260 MiB are resident once PyTorch and Ray are imported; the rest is room for connections."""
    server_name = "PyTorch's workers"
    sends_by_reads = True
    sends_rows_apart = True
    trials_a_connection = None

    def load(self) -> None:
        import torch

        torch.sparse.check_sparse_tensor_invariants.disable()  # without a statement, PyTorch prints a warning

    def quiet_log(self) -> AbstractContextManager[None]:
        return nullcontext()

    def message_of(self, error: BaseException) -> str:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return lines[0] if lines else "no message"

    def capture(self, task: Any) -> CapturedModule:
        from autosync.engine.pytorch.capture import capture

        return capture(task)

    def profile(self, captured: Any) -> CapturedModule:
        from autosync.engine.pytorch.capture import profile

        return profile(captured)

    def load_captured(self, data: bytes) -> CapturedModule:
        from autosync.engine.pytorch.capture import CapturedModule

        return CapturedModule.from_bytes(data)

    def refusals(self, strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> tuple[str, ...]:
        from autosync.engine.pytorch.distribution import unsupported

        del model
        return tuple(unsupported(strategy, cluster))

    def use_logical_devices(self, count: int, paced_replicas: int = 0) -> None:
        """Leave one thread to each replica, since all of them share this process."""
        import torch

        del count, paced_replicas
        torch.set_num_threads(1)

    def local_session(
        self, captured: Any, cluster: ClusterSpec, exchange: Callable[[Strategy, Decision], float] | None = None
    ) -> Session:
        from autosync.engine.pytorch.ranks import LocalRanks
        from autosync.engine.pytorch.session import PyTorchSession

        if exchange is not None:
            raise SpecError("The PyTorch engine has no virtual time; use a Keras model, or a real or paced cluster.")
        return PyTorchSession(captured, cluster, LocalRanks(captured, cluster))

    def local_training(self, captured: Any, cluster: ClusterSpec, strategy: Strategy) -> Runner:
        from autosync.engine.pytorch.training import PyTorchTraining

        return PyTorchTraining(self.local_session(captured, cluster), strategy)

    def worker(self, address: str, cores: float, is_paced: bool, peers: Sequence[str], token: str) -> Worker:
        from autosync.engine.pytorch.workers import PyTorchWorker

        del is_paced, peers
        return PyTorchWorker(address, cores, token)

    def client(self, token: str) -> Client:
        from autosync.engine.pytorch.client import PyTorchClient

        return PyTorchClient(token)
