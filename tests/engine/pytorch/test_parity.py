"""In a user's own loop, which may accumulate, clip or scale gradients, replicas train like one process."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

from autosync.baselines import BASELINES
from autosync.engine.pytorch.distribution import model_of
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.spec import ClusterSpec, ModelSpec, Strategy
from tests.cases import local_cluster, rack_cluster, star_cluster
from tests.engine.pytorch.models import BATCH, batches, built, loss
from tests.engine.pytorch.ranks import Loop, OptimizerOf, are_equal, largest_difference, trained

CLUSTERS = {
    "one node": local_cluster(3),
    "two nodes of two": star_cluster(nodes=2, workers=2),
    "three nodes": star_cluster(nodes=3, workers=1),
    "racks": rack_cluster(),
}

OPTIMIZERS: dict[str, OptimizerOf] = {
    "sgd": lambda module: torch.optim.SGD(module.parameters(), lr=0.1),
    "momentum": lambda module: torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, nesterov=True),
    # Both divide by sqrt(v) + eps, so a gradient that is mostly rounding would become a step of full size.
    "adam": lambda module: torch.optim.Adam(module.parameters(), lr=0.01, eps=1e-6),
    "adagrad": lambda module: torch.optim.Adagrad(module.parameters(), lr=0.1, eps=1e-6),
}

BOUND = 1e-10


def plain(replicas: int) -> Loop:
    """The usual training loop on the examples of a rank; rank -1 takes the examples of all ranks."""

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del synchronizer
        for examples in batches(replicas):
            optimizer.zero_grad()
            loss(module, share_of(examples, rank)).backward()
            optimizer.step()

    return loop


def share_of(examples: torch.Tensor, rank: int) -> torch.Tensor:
    return examples if rank < 0 else examples[rank * BATCH : (rank + 1) * BATCH]


def check_parity(
    module: nn.Module,
    strategy: Strategy,
    cluster: ClusterSpec,
    optimizer_of: OptimizerOf,
    loop: Loop | None = None,
    group: str = "threads",
    holders_update: bool = False,
    overlaps: bool = False,
) -> None:
    """Train `module` with replicas and on one process, and compare."""
    loop = loop or plain(len(strategy.replicas))
    reference = copy.deepcopy(module)
    loop(reference, optimizer_of(reference), None, -1)
    replicas = trained(
        module, strategy, cluster, optimizer_of, loop, group, holders_update=holders_update, overlaps=overlaps
    )
    assert largest_difference(replicas[0], reference) <= BOUND
    assert largest_difference(replicas[0], module) > 1e-4, "nothing was trained"
    assert all(are_equal(replica, replicas[0]) for replica in replicas)


def model(module: nn.Module) -> ModelSpec:
    return model_of(module, list(reversed(dict(module.named_parameters()))))


def strategy_for(baseline: str, module: nn.Module, cluster: ClusterSpec) -> Strategy:
    return BASELINES[baseline](model(module), cluster)


@pytest.mark.parametrize(
    ("optimizer", "name"), [("sgd", "dense"), ("momentum", "sparse"), ("adam", "tied"), ("adagrad", "dense")]
)
def test_over_sockets_in_the_order_that_the_first_step_tells(optimizer: str, name: str) -> None:
    module, cluster = built(name), CLUSTERS["racks"]
    strategy = strategy_for("all_reduce_25mb", module, cluster)
    check_parity(module, strategy, cluster, OPTIMIZERS[optimizer], group="sockets")


@pytest.mark.parametrize("group", ["threads", "gloo"])
def test_gradients_accumulate_over_backward_passes_without_synchronization(group: str) -> None:
    cluster = CLUSTERS["three nodes"]

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        first, second, *_ = batches(3)
        for _ in range(3):
            optimizer.zero_grad()
            if synchronizer is None:
                loss(module, first).backward()
            else:
                with synchronizer.paused():
                    loss(module, share_of(first, rank)).backward()
            loss(module, share_of(second, rank)).backward()
            loss(module, share_of(first, rank)).backward()  # means of one pass are added to the next pass
            optimizer.step()

    module = built("dense")
    check_parity(module, strategy_for("byteps", module, cluster), cluster, OPTIMIZERS["adam"], loop, group)


def test_clipping_a_schedule_and_zeroing_in_place_work_as_on_one_process() -> None:
    cluster = CLUSTERS["one node"]

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del synchronizer
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for examples in batches(3):
            optimizer.zero_grad(set_to_none=False)
            loss(module, share_of(examples, rank)).backward()
            assert torch.nn.utils.clip_grad_norm_(module.parameters(), 0.05) > 0.05
            optimizer.step()
            schedule.step()

    module = built("tied")
    check_parity(
        module, strategy_for("partitioned_parameter_server", module, cluster), cluster, OPTIMIZERS["adam"], loop
    )


def test_an_optimizer_that_calls_the_loss_several_times_works_as_on_one_process() -> None:
    cluster = CLUSTERS["two nodes of two"]

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del synchronizer
        examples = share_of(batches(4)[0], rank)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            value = loss(module, examples)
            value.backward()
            return value

        for _ in range(2):
            optimizer.step(closure)

    module = built("dense")
    strategy = strategy_for("partitioned_all_reduce", module, cluster)
    check_parity(module, strategy, cluster, lambda module: torch.optim.LBFGS(module.parameters(), max_iter=3), loop)


def test_scaled_losses_work_as_on_one_process() -> None:
    """The scaler multiplies the loss before the exchange, divides the means afterwards, and skips infinite steps."""
    cluster = CLUSTERS["one node"]

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del synchronizer
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**4)
        for number, examples in enumerate(batches(3)):
            optimizer.zero_grad()
            value = loss(module, share_of(examples, rank))
            if number == 1 and rank in (-1, 2):
                value = value * torch.inf  # the gradient of one replica makes the mean infinite on all of them
            scaler.scale(value).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 2.0**3

    module = built("dense")
    check_parity(module, strategy_for("byteps", module, cluster), cluster, OPTIMIZERS["adam"], loop)


def test_a_parameter_without_a_gradient_is_named() -> None:
    cluster = CLUSTERS["one node"]
    module = nn.ModuleDict({"used": built("dense"), "idle": nn.Linear(2, 2).double()})

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del synchronizer, optimizer
        assert isinstance(module, nn.ModuleDict)
        loss(module["used"], share_of(batches(3)[0], rank)).backward()

    strategy = strategy_for("all_reduce_per_variable", module, cluster)
    with pytest.raises(
        RuntimeError, match=r"2 parameters got no gradient .*'idle\.weight', 'idle\.bias'.*unused='zeros'"
    ):
        trained(module, strategy, cluster, OPTIMIZERS["sgd"], loop)
    replicas = trained(module, strategy, cluster, OPTIMIZERS["sgd"], loop, unused="zeros")
    for replica in replicas:
        assert isinstance(replica, nn.ModuleDict)
        assert all(not parameter.grad.any() for parameter in replica["idle"].parameters() if parameter.grad is not None)


def test_replicas_may_use_different_parameters_with_zeros_for_the_rest() -> None:
    """A branch that only rank 0 takes has a third of rank 0's gradient as its mean over three replicas."""
    cluster = CLUSTERS["one node"]
    module = nn.ModuleDict({"all": nn.Linear(3, 1), "first": nn.Linear(3, 1)}).double()

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del synchronizer, optimizer
        assert isinstance(module, nn.ModuleDict)
        inputs = torch.ones(2, 3, dtype=torch.float64)
        output = module["all"](inputs).sum()
        (output + module["first"](inputs).sum() if rank == 0 else output).backward()

    strategy = strategy_for("all_reduce_25mb", module, cluster)
    for replica in trained(module, strategy, cluster, OPTIMIZERS["sgd"], loop, unused="zeros"):
        assert isinstance(replica, nn.ModuleDict)
        assert replica["all"].weight.grad.tolist() == [[2.0, 2.0, 2.0]]
        assert replica["first"].weight.grad[0].tolist() == pytest.approx([2 / 3] * 3)


def test_a_parameter_that_gets_two_gradients_in_one_pass_is_refused() -> None:
    cluster = CLUSTERS["one node"]
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).double()

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del synchronizer, optimizer, rank
        inputs = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
        hidden = torch.utils.checkpoint.checkpoint(module, inputs, use_reentrant=True)
        module(hidden).sum().backward()

    strategy = strategy_for("all_reduce_25mb", module, cluster)
    with pytest.raises(RuntimeError, match=r"got its gradient twice in one backward pass.*use_reentrant=False"):
        trained(module, strategy, cluster, OPTIMIZERS["sgd"], loop)
