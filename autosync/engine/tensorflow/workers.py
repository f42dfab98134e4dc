"""The TensorFlow engine's part of worker processes, and of the one client that connects to all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

from autosync.engine.core.contract import Runner
from autosync.engine.core.pacing import Waits
from autosync.engine.core.prefetch import Reader
from autosync.engine.tensorflow.listening import listens_on_all_interfaces
from autosync.engine.tensorflow.placement import Placement
from autosync.engine.tensorflow.servers import connect, start_server
from autosync.engine.tensorflow.step.pace import offer_waits
from autosync.engine.tensorflow.step.session import TensorFlowSession
from autosync.engine.tensorflow.training.feed import ShardOffer
from autosync.engine.tensorflow.training.training import Training
from autosync.engine.tensorflow.transfer import Transfers
from autosync.spec import ClusterSpec, Strategy


@final
class TensorFlowWorker:
    """A TensorFlow server that waits for a client's requests."""

    def __init__(self, address: str, cores: float, is_paced: bool, peers: Sequence[str]) -> None:
        """Start the server. Raises `ClusterError` if no server can listen at `address`."""
        self._server, self.address = start_server(address, cores, int(is_paced), peers)
        self.listens_on_all_interfaces = listens_on_all_interfaces(int(self.address.rpartition(":")[2]))
        self._offers: dict[int, ShardOffer] = {}

    def offer(self, read: Reader, shard: int, shards: int) -> str:
        """Read a shard's batches in this process and offer them to ops; return the token by which ops ask for them."""
        if shard in self._offers:
            self._offers[shard].close()
        self._offers[shard] = ShardOffer(read, shard, shards)
        return self._offers[shard].token

    def offer_waits(self) -> Waits:
        return offer_waits()


@final
class TensorFlowClient:
    """The client of the workers' TensorFlow servers."""

    def __init__(self) -> None:
        self._is_connected = False

    def connect(self, addresses: Sequence[str], host: str) -> None:
        connect(addresses, host, again=self._is_connected)
        self._is_connected = True

    def transport(self, cluster: ClusterSpec) -> Transfers:
        return Transfers(Placement.on_workers(cluster))

    def session(self, captured: Any, cluster: ClusterSpec, waits: Mapping[str, Waits] | None) -> TensorFlowSession:
        return TensorFlowSession(captured, cluster, Placement.on_workers(cluster), waits)

    def training(
        self, captured: Any, cluster: ClusterSpec, strategy: Strategy, waits: Mapping[str, Waits] | None
    ) -> Runner:
        return Training(self.session(captured, cluster.with_real_gradients, waits), strategy)
