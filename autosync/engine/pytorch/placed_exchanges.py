"""All exchanges of a plan by the parameters whose gradients they turn into means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import nn

from autosync.engine.pytorch.bucket import Bucket, SlicePart
from autosync.engine.pytorch.exchanges import ExchangeFactory
from autosync.engine.pytorch.plan import ExchangePlan
from autosync.engine.pytorch.rows import TableShard
from autosync.engine.pytorch.transport import RankLink


@final
class PlacedExchanges:
    """The parameters' places in buckets and tables, and the means that the exchanges leave there."""

    def __init__(
        self,
        plan: ExchangePlan,
        parameters: Mapping[str, nn.Parameter],
        rows: Mapping[nn.Parameter, nn.Parameter],
        link: tuple[RankLink, Sequence[int]],
        priorities: Sequence[float],
        stops_halfway: bool,
        has_barrier: bool,
    ) -> None:
        """`rows` has, by table whose looked-up rows are apart, the parameter that stands for them. `link` is the
        transport, and the rank of each replica. The other arguments are those of `Bucket`."""
        transport, ranks = link
        self._rows = rows
        self.buckets: list[Bucket] = []
        self.parts: dict[nn.Parameter, list[SlicePart]] = {}
        """The slices of each parameter with dense gradients."""
        self.tables: dict[nn.Parameter, list[TableShard]] = {}
        """The shards of each parameter with sparse gradients."""
        exchanges = ExchangeFactory(transport, ranks)
        for planned, priority in zip(plan.buckets, priorities, strict=True):
            bucket = Bucket(planned, parameters, exchanges, transport, ranks, priority, stops_halfway, has_barrier)
            self.buckets.append(bucket)
            for part in bucket.parts:
                self.parts.setdefault(part.parameter, []).append(part)
        for of_table in plan.rows:
            table = parameters[of_table.slice.variable.name]
            self.tables.setdefault(table, []).append(TableShard(of_table, exchanges.of_rows(of_table, table)))

    @property
    def memory(self) -> dict[str, torch.Tensor]:
        """The state of all compressors between steps."""
        return {name: tensor for bucket in self.buckets for name, tensor in bucket.memory.items()}

    def has_arrived(self, parameter: nn.Parameter) -> bool:
        """Whether the parameter's whole mean is here."""
        if parameter in self._rows and not self.has_arrived(self._rows[parameter]):
            return False
        if parameter in self.tables:
            return not any(shard.is_running for shard in self.tables[parameter])
        return all(part.bucket.has_means for part in self.parts[parameter])

    def put_mean(self, parameter: nn.Parameter) -> None:
        """Make the mean, which is here, the parameter's `grad`."""
        if parameter in self.tables:
            parameter.grad = self._mean_rows(parameter)
            return
        parts = self.parts[parameter]
        if len(parts) == 1 and parts[0].slice.count == 1:
            # Messages that are on their way must not follow changes that the user makes to the gradient.
            parameter.grad = parts[0].mean if parts[0].bucket.is_idle else parts[0].mean.clone()
        else:
            if parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
            for part in parts:
                part.of(parameter.grad).copy_(part.mean)
        if parameter in self._rows:
            parameter.grad.add_(self._mean_rows(self._rows[parameter]))

    def _mean_rows(self, table: nn.Parameter) -> torch.Tensor:
        means = [shard.exchange.mean() for shard in self.tables[table]]
        return means[0] if len(means) == 1 else torch.stack(means).sum(0).coalesce()
