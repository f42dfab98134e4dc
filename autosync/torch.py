"""Training one's own PyTorch module under a strategy, in one's own loop.

    import autosync.torch

    model = autosync.torch.distribute(model, "strategy.json")
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss_function(model(inputs), targets).backward()  # gradients are synchronized meanwhile
        optimizer.step()

Start the script with `torchrun`, one process per replica of the strategy.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import nn

from autosync.shadows import check_path

check_path()  # before the imports below: a user's file trials.py would fail them without a reason

from autosync.engine.pytorch.distribution import synchronize
from autosync.engine.pytorch.sharded_state import ShardedOptimizerState
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.errors import SpecError
from autosync.spec import ClusterSpec, Strategy, read_json
from autosync.train.given_strategy import read_strategy_or_baseline
from trials.cluster.file import read_cluster_file

__all__ = ["clip_grad_norm_", "distribute", "no_sync", "optimizer_shards", "undistribute"]

Module = TypeVar("Module", bound=nn.Module)

_synchronizers: WeakKeyDictionary[nn.Module, GradientSynchronizer] = WeakKeyDictionary()


def distribute(
    model: Module,
    strategy: Strategy | Mapping[str, Any] | str | os.PathLike[str] = "strategy.json",
    cluster: ClusterSpec | str | os.PathLike[str] | None = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    overlap_next_forward: bool | None = None,
    unused: str = "error",
    timeout_seconds: float = 600.0,
    transport: str | None = None,
) -> Module:
    """Synchronize the gradients of `model` in every backward pass, as `strategy` says; return the same `model`.

    Every process of the job calls this once, after the model has its final shapes and dtypes. The parameters and
    buffers of rank 0 are copied to all ranks. From then on `backward()` returns when each parameter's `grad` is the
    mean over all replicas, so gradient clipping, `GradScaler`, learning-rate schedulers and any optimizer work as on
    one process. The model stays as it is: `state_dict()` has plain names, and a checkpoint of it loads anywhere.

    With `optimizer`, every replica keeps and updates its own share of the optimizer's state alone, as
    `ZeroRedundancyOptimizer` does: `backward()` leaves the mean of an element at one replica, and `optimizer.step()`
    updates the element there and sends the new value. The messages have the same size.

    Args:
        model: a module whose parameters are all on the CPU, or all on one GPU. Buffers, such as batch-norm statistics,
            stay each replica's own.
        strategy: a strategy file, its JSON document, a `Strategy`, or the name of a baseline such as "byteps"
            (`autosync.baselines.baselines_for` has all names).
        cluster: the cluster that the strategy is for, or its file (.yaml). Without it, the cluster is that of the
            search in the strategy file's folder; without a search, all links count as alike.
        optimizer: the optimizer of all trainable parameters, to split its state and its work among the replicas. Clip
            with `clip_grad_norm_` of this module. `optimizer.state_dict()` has the plain form; call it on all ranks.
        overlap_next_forward: whether `backward()` and `optimizer.step()` return before all gradients have arrived. The
            first operation that reads a parameter waits for its new values, so gradients travel during the next forward
            pass, and the numbers stay the same. A read of `grad` before the step waits, too. None means as the strategy
            says. With `optimizer`, only the new values travel during the next forward pass.
        unused: "error" raises if a parameter gets no gradient in a backward pass; "zeros" counts it as zero.
        timeout_seconds: how long a backward pass may wait for the other replicas before it fails.
        transport: "sockets" (autosync's own) or "gloo" for parameters on the CPU, "nccl" for parameters on a GPU.
            None means sockets on the CPU and NCCL on a GPU.

    Raises:
        SpecError: the strategy does not fit the model or the number of processes, or has a part that the PyTorch
            engine does not carry out; the sentence names it.
        TransportError: the processes cannot connect. A backward pass raises it when another process has died.
    """
    if not isinstance(model, nn.Module):
        raise SpecError(f"A model is a torch.nn.Module, not {type(model).__name__}.")
    if unused not in ("error", "zeros"):
        raise SpecError(f"unused is 'error' or 'zeros', not {unused!r}.")
    if model in _synchronizers:
        raise SpecError("This model is distributed already; call autosync.torch.undistribute(model) first.")
    if cluster is not None and not isinstance(cluster, ClusterSpec):
        cluster = read_cluster_file(Path(cluster))
    if cluster is None and isinstance(strategy, str | os.PathLike):
        cluster = _cluster_of_search(Path(strategy))
    _synchronizers[model] = synchronize(
        model,
        read_strategy_or_baseline(strategy, "pytorch"),
        cluster,
        optimizer=optimizer,
        overlaps=overlap_next_forward,
        unused=unused,
        timeout_seconds=timeout_seconds,
        transport=transport,
    )
    return model


def _cluster_of_search(strategy: Path) -> ClusterSpec | None:
    """The cluster of the search that wrote the file `strategy`, from the search's run.json; None without a search."""
    file = strategy.parent / "run.json"
    if not strategy.is_file() or not file.is_file():
        return None
    return ClusterSpec.from_json(read_json(file, f"Run file {str(file)!r}")["cluster"])


@contextmanager
def no_sync(model: nn.Module) -> Iterator[None]:
    """Leave the gradients of `model` unsynchronized in the block, to accumulate them over several backward passes.

    The next backward pass after the block synchronizes the accumulated gradients. Raises `SpecError` for a model that
    is not distributed.
    """
    with _synchronizer_of(model).paused():
        yield


def clip_grad_norm_(
    model: nn.Module, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> torch.Tensor:
    """Clip the mean gradients of `model`, as `torch.nn.utils.clip_grad_norm_` does, wherever they are held.

    All ranks call this between `backward()` and `optimizer.step()`. Returns the norm of all gradients before clipping.
    Raises `SpecError` for a model that is not distributed, and `RuntimeError` for a norm that is not finite if that is
    an error.
    """
    return _synchronizer_of(model).clip(max_norm, norm_type, error_if_nonfinite)


def optimizer_shards(model: nn.Module) -> ShardedOptimizerState:
    """The state of the optimizer of `model` for `torch.distributed.checkpoint`: every rank saves its own share.

        state = {"model": model.state_dict(), "optimizer": autosync.torch.optimizer_shards(model)}
        torch.distributed.checkpoint.save(state, checkpoint_id="checkpoint")

    `load` with the same dictionary fills the model and the optimizer in place, also under another strategy and with
    another number of ranks. Raises `SpecError` if `model` is not distributed with its optimizer.
    """
    values = _synchronizer_of(model).values
    if values is None:
        raise SpecError("All ranks have the whole optimizer state; save optimizer.state_dict(), or pass optimizer=.")
    return ShardedOptimizerState(values.holders)


def undistribute(model: nn.Module) -> None:
    """Stop the synchronization of `model`, and close its connections. Raises `SpecError` if it is not distributed.

    If the optimizer's state is split among the ranks, all ranks call this together, and the optimizer gets all of it.
    """
    _synchronizer_of(model).undo()
    del _synchronizers[model]


def _synchronizer_of(model: nn.Module) -> GradientSynchronizer:
    if model not in _synchronizers:
        raise SpecError("This model is not distributed; call autosync.torch.distribute(model, strategy) first.")
    return _synchronizers[model]
