"""Runs the exchanges of one bucket alone, on ranks that are threads: one step after another on given gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from autosync.engine.pytorch.compressed import exchanges_of
from autosync.engine.pytorch.exchanges import ExchangeFactory
from autosync.engine.pytorch.local_transport import local_group
from autosync.engine.pytorch.place import Place
from autosync.engine.pytorch.plan import plan
from autosync.numeric import AnyArray
from autosync.spec import ClusterSpec, ModelSpec, Strategy, Synchronizer, Variable, VariableStrategy
from tests.cases import star_cluster
from tests.engine.pytorch.ranks import on_all_ranks

WAIT_SECONDS = 30.0


class BucketSteps:
    """Variables of `shapes` in one bucket. Each call is one step: `gradients[r][v]` in, every rank's flat mean out."""

    def __init__(
        self,
        synchronizer: Synchronizer,
        shapes: Sequence[tuple[int, ...]],
        cluster: ClusterSpec | int,
        dtype: str = "float32",
    ) -> None:
        """`cluster` may be the number of nodes of a cluster with one replica each."""
        cluster = star_cluster(cluster) if isinstance(cluster, int) else cluster
        variables = [Variable(f"variable_{number}", shape, dtype, number) for number, shape in enumerate(shapes)]
        decisions = tuple(VariableStrategy(variable.name, (synchronizer,)) for variable in variables)
        strategy = Strategy(tuple(map(str, cluster.replica_devices)), decisions)
        (self.bucket,) = plan(strategy, ModelSpec("model", 1, "sgd", 0, tuple(variables)), cluster).buckets
        self._transports = local_group(len(strategy.replicas))
        ranks = range(len(self._transports))
        self._arrays = [torch.zeros(self.bucket.elements, dtype=getattr(torch, dtype)) for _ in ranks]
        self._exchanges = [
            exchanges_of(Place(self.bucket, array, ExchangeFactory(transport, ranks), transport.rank))
            for array, transport in zip(self._arrays, self._transports, strict=True)
        ]
        self._step = 0

    def __call__(self, gradients: Sequence[Sequence[AnyArray]]) -> list[AnyArray]:
        self._step += 1
        return on_all_ranks(len(self._transports), lambda rank: self._take(rank, gradients[rank]))

    def remembered(self) -> list[dict[str, AnyArray]]:
        """Copies of every rank's memory."""
        return [
            {name: tensor.numpy().copy() for exchange in exchanges for name, tensor in exchange.memory.items()}
            for exchanges in self._exchanges
        ]

    def close(self) -> None:
        for transport in self._transports:
            transport.close()

    def _take(self, rank: int, gradients: Sequence[AnyArray]) -> AnyArray:
        transport, array, exchanges = self._transports[rank], self._arrays[rank], self._exchanges[rank]
        array.copy_(torch.from_numpy(np.concatenate([np.ravel(gradient) for gradient in gradients])))
        ended: list[int] = []

        def end() -> None:
            ended.append(1)
            transport.notify()

        for exchange in exchanges:
            transport.call(lambda exchange=exchange: exchange.start(self._step, 0.0, end))
        transport.wait_for(lambda: len(ended) == len(exchanges), WAIT_SECONDS)
        return array.numpy().copy()


def same(means: Sequence[AnyArray]) -> AnyArray:
    """The mean, after a check that all ranks have the same bytes."""
    assert len({mean.tobytes() for mean in means}) == 1
    return means[0]
