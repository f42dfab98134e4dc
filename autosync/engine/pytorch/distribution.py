"""A module whose gradients are synchronized as a strategy says, in the processes that `torchrun` started."""

from __future__ import annotations

import atexit
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import torch
import torch.distributed as dist
from torch import nn

from autosync.baselines import baselines_for
from autosync.engine.core.touched_rows import TouchedRows
from autosync.engine.pytorch.connection import connect_transport, device_of, transport_for
from autosync.engine.pytorch.factors import layers_with_factors
from autosync.engine.pytorch.plan import ExchangePlan, is_collective, plan
from autosync.engine.pytorch.sockets import master_address, own_address
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.engine.pytorch.task import variable_of
from autosync.errors import SpecError
from autosync.spec import (
    PLAIN,
    AllReduce,
    ClusterSpec,
    Device,
    Figure,
    Link,
    ModelSpec,
    Node,
    ParameterServer,
    PowerSGD,
    Strategy,
    TopK,
    check_strategy,
)

ASSUMED_RATE = Figure(1.0, "assumed")


def synchronize(
    module: nn.Module,
    strategy: Strategy | str,
    cluster: ClusterSpec | None = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    overlaps: bool | None = None,
    unused: str = "error",
    timeout_seconds: float = 600.0,
    transport: str | None = None,
) -> GradientSynchronizer:
    """Synchronize the gradients of `module` in every backward pass of this process and its peers.

    All ranks call this, with the same model, strategy and cluster. `strategy` may be the name of a baseline.
    Parameters and buffers of rank 0 are copied to the other ranks. Without a `cluster`, all links count as alike.
    Whether communication overlaps with the next forward pass is the strategy's decision, unless `overlaps` says it.
    `transport` is "sockets", "gloo" or "nccl"; None chooses by the parameters' device.
    Raises `SpecError` for a strategy that does not fit the module, the processes or this engine, and `TransportError`
    when the ranks cannot connect.
    """
    parameters = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    model = model_of(module, list(reversed(parameters)))
    device = device_of(parameters)
    transport = transport_for(transport, device, optimizer is not None)
    gather = _Gathering()
    if isinstance(strategy, str):
        cluster = cluster or _cluster_here(gather)
        strategy = _baseline(strategy, model, cluster)
    if strategy.ddp is not None:
        raise SpecError(
            "DistributedDataParallel itself carries out this strategy; write a file that wraps your model in it with "
            "`autosync export STRATEGY --to ddp`, or wrap the model yourself with the arguments "
            f"({strategy.ddp.in_words})."
        )
    cluster = cluster or uniform_cluster(strategy)
    check_supported(strategy, model, cluster)
    if transport != "sockets":
        _check_not_compressed(strategy, transport)
    ranks = _ranks_of(strategy, cluster, gather)
    setting = f"{strategy.digest} {model.digest} {transport}"
    for rank, setting_there in enumerate(gather(setting)):
        if setting_there != setting:
            raise SpecError(
                f"Rank {rank} has another strategy, model or transport than rank {gather.rank}; use the same."
            )
    address = own_address(master_address())
    link = connect_transport(
        transport, device, gather.rank, gather.size, address, gather, timeout_seconds, strategy.has_collectives
    )
    atexit.register(link.close)  # before the interpreter ends, which threads of the transport must not outlive

    def plan_of(order: Sequence[str]) -> ExchangePlan:
        return plan(strategy, model_of(module, order), cluster)

    synchronizer = GradientSynchronizer(
        parameters,
        plan_of,
        link,
        ranks,
        unused=unused,
        timeout_seconds=timeout_seconds,
        optimizer=optimizer,
        overlaps=strategy.overlap_next_forward if overlaps is None else overlaps,
        module=module,
        rows_apart=strategy.rows_apart,
    )
    with torch.no_grad():
        synchronizer.broadcast([*module.parameters(), *module.buffers()])
    return synchronizer


def _check_not_compressed(strategy: Strategy, transport: str) -> None:
    for decision in strategy.variables:
        if any(synchronizer.compressor is not None for synchronizer in decision.distinct):
            raise SpecError(
                f"Variable {decision.variable!r} has a compressor, which the transport {transport!r} does not carry "
                "out; choose a strategy without compressors, or transport='sockets' for parameters on the CPU."
            )


def model_of(module: nn.Module, order: Sequence[str]) -> ModelSpec:
    """The trainable parameters of `module`, whose gradients become ready in `order`, which may have other names, too.

    A table that only sparse embeddings read is sparse. The weight of linear layers has sufficient factors. The rows of
    either per step are not known and count as one.
    """
    trainable = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    places = {name: place for place, name in enumerate(name for name in order if name in trainable)}
    sparse, dense = set[nn.Parameter](), set[nn.Parameter]()
    for part in module.modules():
        looks_up = isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.sparse
        (sparse if looks_up else dense).update(part.parameters(recurse=False))
    sparse_only, factored = sparse - dense, layers_with_factors(module)
    variables = tuple(
        variable_of(
            name,
            parameter,
            places[name],
            rows=TouchedRows(1.0) if parameter in sparse_only else None,
            factor_rows=1 if parameter in factored else None,
        )
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    )
    return ModelSpec("module", 1, "torch", 0, variables)


def check_supported(strategy: Strategy, model: ModelSpec, cluster: ClusterSpec) -> None:
    """Raise `SpecError` if `strategy` does not fit, or has a part that this engine does not carry out."""
    check_strategy(strategy, model, cluster)
    fault = next(unsupported(strategy, cluster), None)
    if fault is not None:
        raise SpecError(f"The PyTorch engine does not carry out this strategy: {fault}.")


def unsupported(strategy: Strategy, cluster: ClusterSpec) -> Iterator[str]:
    """The parts of `strategy` that this engine does not carry out, each as a clause."""
    if strategy.discipline != PLAIN:
        yield "it has a discipline (cut-off, local steps, fidelity or loads)"
    if len(strategy.replicas) < len(cluster.replica_devices):
        yield f"it has {len(strategy.replicas)} replicas on a cluster of {len(cluster.replica_devices)}"
    nodes = {Device.parse(replica).node for replica in strategy.replicas}
    for decision in strategy.variables:
        for synchronizer in decision.distinct:
            if isinstance(synchronizer.compressor, PowerSGD | TopK) and is_collective(synchronizer):
                yield (
                    f"variable {decision.variable!r} is reduced by a collective under "
                    f"{synchronizer.compressor.to_json()['name']}, which needs messages in any order"
                )
            if isinstance(synchronizer, ParameterServer):
                if synchronizer.staleness:
                    yield f"the server of variable {decision.variable!r} accepts stale gradients"
                if Device.parse(synchronizer.device).node not in nodes:
                    yield f"the server {synchronizer.device!r} is on a node without a replica"


def uniform_cluster(strategy: Strategy) -> ClusterSpec:
    """A cluster with the strategy's nodes, all joined by links of the same assumed rate.

    Raises `SpecError` for a strategy whose messages follow from the rates of links.
    """
    for decision in strategy.variables:
        for synchronizer in decision.distinct:
            if isinstance(synchronizer, AllReduce) and synchronizer.algorithm == "fitted":
                raise SpecError(
                    "The strategy has all-reduces that are fitted to the cluster's links; pass cluster=, the cluster "
                    "file that the strategy was found on."
                )
    devices: dict[str, list[Device]] = {}
    named = [*strategy.replicas, *(device for decision in strategy.variables for device in decision.devices)]
    for device in map(Device.parse, named):
        devices.setdefault(device.node, []).append(device)
    nodes = [
        Node(
            name,
            "127.0.0.1",
            cores=1.0,
            workers=1 + max((device.index for device in on_node if device.kind == "cpu"), default=0),
            gpus=max((device.index + 1 for device in on_node if device.kind == "gpu"), default=0),
        )
        for name, on_node in devices.items()
    ]
    return _all_joined(nodes)


def _all_joined(nodes: Sequence[Node]) -> ClusterSpec:
    names = [node.name for node in nodes]
    links = tuple(Link(source, target, ASSUMED_RATE, ASSUMED_RATE) for source, target in product(names, repeat=2))
    return ClusterSpec(tuple(nodes), links)


def _cluster_here(gather: _Gathering) -> ClusterSpec:
    """The nodes that this job's processes run on, told apart by their addresses."""
    processes = Counter(gather(own_address(master_address())))
    nodes = [
        Node(f"node{number}", address, cores=1.0, workers=workers)
        for number, (address, workers) in enumerate(processes.items())
    ]
    return _all_joined(nodes)


def _baseline(name: str, model: ModelSpec, cluster: ClusterSpec) -> Strategy:
    """The baseline `name`. Raises `SpecError` for an unknown name."""
    known = baselines_for("pytorch")
    if name not in known:
        raise SpecError(f"No baseline is called {name!r}; there are {', '.join(known)}.")
    # The rows of factors are not known before the first pass, so a baseline cannot weigh factors against gradients.
    variables = tuple(replace(variable, factor_rows=None) for variable in model.variables)
    return known[name](replace(model, variables=variables), cluster)


class _Gathering:
    """Texts shared among all ranks through the default group of `torch.distributed`."""

    def __init__(self) -> None:
        """Use the default group, or make one with gloo in a process that `torchrun` started. Raises `SpecError`."""
        if not dist.is_initialized():
            if "WORLD_SIZE" not in os.environ:
                raise SpecError(
                    "autosync synchronizes processes that know of each other; start the script with torchrun, such as "
                    "torchrun --nproc-per-node 2 train.py, or call torch.distributed.init_process_group first."
                )
            dist.init_process_group("gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def __call__(self, text: str) -> list[str]:
        texts = [""] * self.size
        dist.all_gather_object(texts, text)
        return texts


def _ranks_of(strategy: Strategy, cluster: ClusterSpec, gather: _Gathering) -> tuple[int, ...]:
    """The rank of each replica of the strategy, in its order.

    If the addresses of the cluster's nodes tell them apart, a rank belongs to the node whose address it has; ranks of
    one node have its devices in order. Otherwise rank r has device r of the cluster. Raises `SpecError`.
    """
    if gather.size != len(strategy.replicas):
        raise SpecError(
            f"The strategy has {len(strategy.replicas)} replicas, and {gather.size} processes run; start one process "
            "per replica."
        )
    devices = [str(device) for device in cluster.replica_devices]
    node_at = {node.address: node.name for node in cluster.nodes}
    addresses = gather(own_address(master_address()))
    if len(node_at) == len(cluster.nodes) and set(addresses) <= node_at.keys():
        free: dict[str, list[str]] = {}
        for device in devices:
            free.setdefault(Device.parse(device).node, []).append(device)
        devices = []
        for rank, address in enumerate(addresses):
            on_node = free.get(node_at[address], [])
            if not on_node:
                raise SpecError(
                    f"Rank {rank} is one process too many on node {node_at[address]!r} of the cluster; start one "
                    "process per replica."
                )
            devices.append(on_node.pop(0))
    return tuple(devices.index(replica) for replica in strategy.replicas)
