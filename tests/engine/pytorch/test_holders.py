"""Replicas that update only the elements whose sums they complete train like one process, too."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import pytest
import torch
from torch import nn

from autosync.baselines import BASELINES
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.errors import SpecError
from tests.cover import crossed, thorough
from tests.engine.pytorch.models import MODELS, WIDE, batches, built, drawn, loss
from tests.engine.pytorch.ranks import Loop, are_equal, trained
from tests.engine.pytorch.test_parity import (
    CLUSTERS,
    OPTIMIZERS,
    check_parity,
    model,
    plain,
    share_of,
    strategy_for,
)

Optimizer = torch.optim.Optimizer
Synchronizer = GradientSynchronizer | None


@pytest.mark.parametrize(("baseline", "name", "place"), crossed(BASELINES, MODELS, CLUSTERS))
def test_baselines_train_like_one_process(baseline: str, name: str, place: str) -> None:
    module, cluster = built(name), CLUSTERS[place]
    optimizer = OPTIMIZERS["momentum" if name == "sparse" else "adam"]
    strategy = strategy_for(baseline, module, cluster)
    if baseline == "poseidon":  # sends some gradients as sufficient factors
        with pytest.raises(SpecError, match=r"has a compressor, .* leave out optimizer="):
            check_parity(module, strategy, cluster, optimizer, holders_update=True)
        return
    check_parity(module, strategy, cluster, optimizer, holders_update=True)


@pytest.mark.parametrize("overlaps", [False, True])
@pytest.mark.parametrize("seed", [*range(6), *map(thorough, range(6, 60))])
def test_any_strategy_trains_any_model_like_one_process(seed: int, overlaps: bool) -> None:
    rng = random.Random(seed)
    module, cluster = drawn(seed), CLUSTERS[rng.choice(sorted(CLUSTERS))]
    strategy = WIDE.bind(model(module), cluster).sample(rng)
    group = rng.choice(["threads", "sockets"])
    check_parity(module, strategy, cluster, OPTIMIZERS[rng.choice(["adam", "momentum"])], None, group, True, overlaps)


def test_groups_of_parameters_and_a_schedule_work_as_on_one_process() -> None:
    def optimizer_of(module: nn.Module) -> Optimizer:
        plain_decay = [parameter for parameter in module.parameters() if parameter.ndim > 1]
        biases = [parameter for parameter in module.parameters() if parameter.ndim <= 1]
        groups = [{"params": plain_decay, "weight_decay": 0.3}, {"params": biases, "lr": 0.02}]
        return torch.optim.AdamW(groups, lr=0.01, weight_decay=0.0, eps=1e-6)

    def loop(module: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer, rank: int) -> None:
        del synchronizer
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        for examples in batches(4):
            module.zero_grad(set_to_none=False)
            loss(module, share_of(examples, rank)).backward()
            optimizer.step()
            schedule.step()

    module, cluster = built("tied"), CLUSTERS["two nodes of two"]
    strategy = strategy_for("partitioned_all_reduce", module, cluster)
    check_parity(module, strategy, cluster, optimizer_of, loop, holders_update=True)


def test_all_ways_to_update_give_the_same_bits() -> None:
    module, cluster = built("dense"), CLUSTERS["racks"]
    strategy = strategy_for("partitioned_all_reduce", module, cluster)
    ways = ({}, {"holders_update": True}, {"overlaps": True}, {"holders_update": True, "overlaps": True})
    ends = [trained(module, strategy, cluster, OPTIMIZERS["momentum"], plain(4), **way)[0] for way in ways]
    assert all(are_equal(ends[0], end) for end in ends)


def held(synchronizer: Synchronizer) -> int:
    """Elements of optimizer state on a rank."""
    assert synchronizer is not None
    assert synchronizer.values is not None
    states = synchronizer.values.holders.optimizer.state.values()
    return sum(value.numel() for state in states for value in state.values() if value.ndim)


def test_a_rank_keeps_its_share_of_the_state() -> None:
    shares: dict[int, int] = {}

    def loop(module: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer, rank: int) -> None:
        plain(3)(module, optimizer, synchronizer, rank)
        shares[rank] = held(synchronizer)

    module, cluster = built("dense"), CLUSTERS["three nodes"]
    trained(
        module, strategy_for("all_reduce_25mb", module, cluster), cluster, OPTIMIZERS["adam"], loop, holders_update=True
    )
    elements = sum(parameter.numel() for parameter in module.parameters())
    assert sum(shares.values()) == 2 * elements
    assert max(shares.values()) <= 2 * elements / 3 + 10


@pytest.mark.parametrize("baseline", ["all_reduce_25mb", "partitioned_parameter_server", "byteps"])
def test_state_loads_into_the_plain_optimizer_and_back_to_the_bit(baseline: str) -> None:
    """Train, save, go on; load the checkpoint into new replicas, and go on to the same bits."""
    module, cluster = built("tied"), CLUSTERS["three nodes"]
    saved: dict[int, dict[str, object]] = {}
    ends: dict[str, list[torch.Tensor]] = {}
    steps = plain(3)

    def first(module: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer, rank: int) -> None:
        steps(module, optimizer, synchronizer, rank)
        saved[rank] = copy.deepcopy({"model": module.state_dict(), "optimizer": optimizer.state_dict()})
        steps(module, optimizer, synchronizer, rank)
        ends["whole"] = [parameter.detach() for parameter in module.parameters()]

    def resumed(before: bool) -> Loop:
        def loop(module: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer, rank: int) -> None:
            module.load_state_dict(saved[0]["model"])  # type: ignore[arg-type]
            if not before:
                optimizer.load_state_dict(saved[0]["optimizer"])  # type: ignore[arg-type]
            steps(module, optimizer, synchronizer, rank)
            ends["resumed"] = [parameter.detach() for parameter in module.parameters()]

        return loop

    def loaded(module: nn.Module) -> Optimizer:
        optimizer = OPTIMIZERS["adam"](module)
        optimizer.load_state_dict(saved[0]["optimizer"])  # type: ignore[arg-type]
        return optimizer

    strategy = strategy_for(baseline, module, cluster)
    trained(module, strategy, cluster, OPTIMIZERS["adam"], first, holders_update=True)
    assert str(saved[0]) == str(saved[2])
    plain_optimizer = loaded(copy.deepcopy(module))
    assert str(plain_optimizer.state_dict()) == str(saved[0]["optimizer"])
    for optimizer_of, before in ((OPTIMIZERS["adam"], False), (loaded, True)):
        trained(module, strategy, cluster, optimizer_of, resumed(before), holders_update=True)
        assert all(map(torch.equal, ends["whole"], ends["resumed"]))


def test_the_plain_optimizer_is_given_back() -> None:
    module, cluster = built("dense"), CLUSTERS["three nodes"]

    def loop(module: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer, rank: int) -> None:
        plain(3)(module, optimizer, synchronizer, rank)
        if synchronizer is not None and synchronizer.values is not None:
            synchronizer.values.undo()
            synchronizer.remove_hooks()
        optimizer.zero_grad()
        loss(module, batches(3)[0]).backward()
        optimizer.step()

    check_parity(
        module,
        strategy_for("all_reduce_25mb", module, cluster),
        cluster,
        OPTIMIZERS["adam"],
        loop,
        holders_update=True,
    )


@pytest.mark.parametrize("norm_type", [2.0, 1.0, torch.inf])
@pytest.mark.parametrize("name", ["tied", "sparse"])
def test_clipping_works_as_on_one_process(name: str, norm_type: float) -> None:
    def loop(module: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer, rank: int) -> None:
        for examples in batches(4):
            optimizer.zero_grad()
            loss(module, share_of(examples, rank)).backward()
            if synchronizer is None:
                gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
                joined = torch.cat([gradient.to_dense().flatten() for gradient in gradients])
                norm = torch.linalg.vector_norm(joined, norm_type)
                for gradient in gradients:
                    gradient.mul_((0.01 / (norm + 1e-6)).clamp(max=1.0))
            else:
                norm = synchronizer.clip(0.01, norm_type)
            assert norm > 0.01
            optimizer.step()

    module, cluster = built(name), CLUSTERS["racks"]
    for baseline in ("byteps", "parameter_server"):
        strategy = strategy_for(baseline, module, cluster)
        check_parity(module, strategy, cluster, OPTIMIZERS["momentum"], loop, holders_update=True)


def test_accumulation_and_a_step_that_all_ranks_skip() -> None:
    def loop(module: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer, rank: int) -> None:
        first, second, third, fourth = (share_of(examples, rank) for examples in batches(3))
        if synchronizer is None:
            (loss(module, first) + loss(module, second)).backward()
        else:
            with synchronizer.paused():
                loss(module, first).backward()
            loss(module, second).backward()
        optimizer.step()
        optimizer.zero_grad()
        loss(module, third).backward()  # not used
        optimizer.zero_grad()
        loss(module, fourth).backward()
        optimizer.step()

    module, cluster = built("dense"), CLUSTERS["three nodes"]
    strategy = strategy_for("partitioned_all_reduce", module, cluster)
    check_parity(module, strategy, cluster, OPTIMIZERS["adam"], loop, holders_update=True)


def twice(module: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer, rank: int) -> None:
    del synchronizer, optimizer
    for examples in batches(3):
        loss(module, share_of(examples, rank)).backward()


def skips_alone(module: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer, rank: int) -> None:
    del synchronizer
    for examples in batches(3):
        optimizer.zero_grad()
        loss(module, share_of(examples, rank)).backward()
        if rank:
            optimizer.step()


def reads(module: nn.Module, optimizer: Optimizer, synchronizer: Synchronizer, rank: int) -> None:
    del synchronizer, optimizer
    loss(module, share_of(batches(3)[0], rank)).backward()
    torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)


WRONG: dict[str, tuple[Loop, str]] = {
    "accumulation without no_sync": (twice, r"before optimizer\.step\(\) had used .*no_sync"),
    "a step that some ranks skip": (skips_alone, r"This rank skipped an optimizer\.step\(\) .*ShardedGradScaler"),
    "gradients read": (reads, r"spread over the ranks, .*autosync\.torch\.clip_grad_norm_"),
}


@pytest.mark.parametrize("case", WRONG)
def test_use_that_would_train_differently_raises(case: str) -> None:
    loop, sentence = WRONG[case]
    module, cluster = built("dense"), CLUSTERS["three nodes"]
    strategy = strategy_for("all_reduce_25mb", module, cluster)
    with pytest.raises(RuntimeError, match=sentence):
        trained(module, strategy, cluster, OPTIMIZERS["sgd"], loop, "sockets", holders_update=True)


REFUSED: dict[str, tuple[Callable[[nn.Module], Optimizer], str]] = {
    "not elementwise": (lambda module: torch.optim.Adafactor(module.parameters()), "Adafactor does not update each"),
    "not all": (lambda module: torch.optim.SGD(list(module.parameters())[:2], lr=0.1), "does not hold parameter"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_optimizers_that_cannot_be_split_are_refused(case: str) -> None:
    optimizer_of, sentence = REFUSED[case]
    module, cluster = built("dense"), CLUSTERS["three nodes"]
    with pytest.raises(SpecError, match=sentence):
        trained(
            module,
            strategy_for("all_reduce_25mb", module, cluster),
            cluster,
            optimizer_of,
            plain(3),
            holders_update=True,
        )
