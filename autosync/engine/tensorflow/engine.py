"""The TensorFlow engine, which implements `Engine` of `engine/core/contract.py`. This module loads no framework."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, final

from autosync.engine.core.contract import Client, Runner, Session, Worker
from autosync.engine.core.versions import VERSIONS
from autosync.engine.tensorflow.loading import load_tensorflow, quiet_log
from autosync.spec import ClusterSpec, Decision, ModelSpec, Strategy

if TYPE_CHECKING:
    from autosync.engine.tensorflow.capture.captured import CapturedModel
    from autosync.engine.tensorflow.step.session import TensorFlowSession

_EMPTY_TALK = re.compile(
    r"""Graph\ execution\ error:$     # TensorFlow first names the place of the error, which is a generated
    |Detected\ at\ node\b            # name in a function built from a graph
    |File\ "|<stack\ traces\ unavailable>
    |\d+\ root\ error\(s\)\ found""",
    re.VERBOSE,
)
_ROOT = re.compile(r"\(\d+\) (?P<code>[A-Z_]+): +(?P<message>.*)")
_DECORATION = re.compile(r"\{\{function_node [^}]*\}\} ?| *\[Op:[^\]]*\].*$")


@final
class TensorFlowEngine:
    """Realizes each strategy as one multi-device function, which one client runs on the workers' TensorFlow servers."""

    name = "tensorflow"
    version = VERSIONS["tensorflow"]
    packages = ("tensorflow", "keras")
    title = "TensorFlow"
    process_bytes = 0.7e9
    """676 MiB resident on two cores."""
    server_name = "TensorFlow's servers"
    sends_by_reads = False
    sends_rows_apart = False
    trials_a_connection = 150
    """Workers keep about 1 MB a trial while a connection lasts; a new connection has its cost (`servers.connect`)."""

    def load(self) -> None:
        load_tensorflow()

    def quiet_log(self) -> AbstractContextManager[None]:
        return quiet_log()

    def message_of(self, error: BaseException) -> str:
        """The first line with content. If TensorFlow lists several root errors, the first that is not CANCELLED,
        because an error cancels the other ops.
        """
        lines = [line.strip() for line in str(error).splitlines()]
        telling = [line for line in lines if line and not _EMPTY_TALK.match(line)]
        message = _first_root(telling) or (telling[0] if telling else "no message")
        return _DECORATION.sub("", message)

    def capture(self, task: Any) -> CapturedModel:
        from autosync.engine.tensorflow.capture.capturing import capture

        return capture(task)

    def profile(self, captured: Any) -> CapturedModel:
        from autosync.engine.tensorflow.capture.profile import profile

        return profile(captured)

    def load_captured(self, data: bytes) -> CapturedModel:
        from autosync.engine.tensorflow.capture.captured import CapturedModel

        return CapturedModel.from_bytes(data)

    def refusals(self, strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> tuple[str, ...]:
        del model, cluster  # `realize` knows the optimizer and the session, and refuses more
        return tuple(f"the looked-up rows of variable {table!r} are sent apart" for table in strategy.rows_apart)

    def use_logical_devices(self, count: int, paced_replicas: int = 0) -> None:
        from autosync.engine.tensorflow.servers import use_logical_devices

        use_logical_devices(count, paced_replicas)

    def local_session(
        self, captured: Any, cluster: ClusterSpec, exchange: Callable[[Strategy, Decision], float] | None = None
    ) -> Session:
        return _local_session(captured, cluster, exchange)

    def local_training(self, captured: Any, cluster: ClusterSpec, strategy: Strategy) -> Runner:
        from autosync.engine.tensorflow.training.training import Training

        return Training(_local_session(captured, cluster.with_real_gradients), strategy)

    def worker(self, address: str, cores: float, is_paced: bool, peers: Sequence[str], token: str) -> Worker:
        from autosync.engine.tensorflow.workers import TensorFlowWorker

        del token  # TensorFlow's servers ask for none
        return TensorFlowWorker(address, cores, is_paced, peers)

    def client(self, token: str) -> Client:
        from autosync.engine.tensorflow.workers import TensorFlowClient

        del token
        return TensorFlowClient()


def _local_session(
    captured: CapturedModel, cluster: ClusterSpec, exchange: Callable[[Strategy, Decision], float] | None = None
) -> TensorFlowSession:
    from autosync.engine.tensorflow.placement import Placement
    from autosync.engine.tensorflow.step.session import TensorFlowSession

    return TensorFlowSession(captured, cluster, Placement.in_one_process(cluster), exchange=exchange)


def _first_root(lines: list[str]) -> str:
    roots = [match for line in lines if (match := _ROOT.match(line))]
    causes = [root for root in roots if root["code"] != "CANCELLED"] or roots
    return causes[0]["message"] if causes else ""
