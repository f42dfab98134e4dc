"""Compressed gradients train like plain NumPy models of the same algorithms, and all replicas have the same bits."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import nn

from autosync.engine.pytorch.distribution import check_supported
from autosync.engine.pytorch.orthonormal import orthonormal, product
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.errors import SpecError
from autosync.numeric import AnyArray
from autosync.spec import AllReduce, Compressor, ParameterServer, PowerSGD, Strategy, Synchronizer, TopK
from tests.cases import local_cluster
from tests.contracts.compressed_means import means_of, units_of
from tests.contracts.ways import COMPRESSED, ROUNDED
from tests.cover import crossed
from tests.engine.pytorch.buckets import BucketSteps, same
from tests.engine.pytorch.models import batches as batches_of
from tests.engine.pytorch.models import built, loss
from tests.engine.pytorch.ranks import Loop, are_equal, trained
from tests.engine.pytorch.test_parity import CLUSTERS, OPTIMIZERS, model, share_of

STEPS = 16
PLACED = {name: way for name, way in COMPRESSED.items() if "collective" not in name}
EXACT = 1e-10


def loop_of(replicas: int, steps: int = STEPS, first: int = 0) -> Loop:
    """Training steps `first` to `steps` of each rank, on its own examples."""

    def loop(
        module: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        del synchronizer
        for examples in batches_of(replicas, steps)[first:]:
            optimizer.zero_grad()
            loss(module, share_of(examples, rank)).backward()
            optimizer.step()

    return loop


def train_in_numpy(module: nn.Module, strategy: Strategy, steps: int = STEPS) -> nn.Module:
    """`module` after its steps in one process, with the mean gradients of NumPy's models of compressors."""
    module, units = copy.deepcopy(module), units_of(strategy, model(module))
    optimizer, replicas = OPTIMIZERS["momentum"](module), len(strategy.replicas)
    for examples in batches_of(replicas, steps):
        gradients: list[dict[str, AnyArray]] = []
        for rank in range(replicas):
            optimizer.zero_grad()
            loss(module, share_of(examples, rank)).backward()
            gradients.append({name: value.grad.numpy().copy() for name, value in module.named_parameters()})
        means = means_of(units, gradients)
        for name, parameter in module.named_parameters():
            parameter.grad = torch.from_numpy(means[name])
        optimizer.step()
    return module


def largest_difference(first: nn.Module, second: nn.Module) -> float:
    pairs = zip(first.parameters(), second.parameters(), strict=True)
    return max(float((ours - theirs).detach().abs().max() / theirs.detach().abs().max()) for ours, theirs in pairs)


@pytest.mark.parametrize(("way", "place"), crossed(PLACED, CLUSTERS))
def test_steps_train_like_the_algorithm_in_numpy(way: str, place: str) -> None:
    module, cluster = built("dense"), CLUSTERS[place]
    strategy = PLACED[way](model(module), cluster)
    replicas = trained(module, strategy, cluster, OPTIMIZERS["momentum"], loop_of(len(strategy.replicas)))
    expected = train_in_numpy(module, strategy)
    assert largest_difference(replicas[0], expected) <= EXACT
    assert largest_difference(replicas[0], module) > 1e-2, "nothing was trained"
    assert all(are_equal(replica, replicas[0]) for replica in replicas)


@pytest.mark.parametrize(
    "way", ["top-k, own", "top-k, star, tree", "top-k, var, tree", "PowerSGD, ring", "PowerSGD, servers"]
)
def test_one_replica_alone_does_too(way: str) -> None:
    module, cluster = built("dense"), local_cluster(1)
    strategy = PLACED[way](model(module), cluster)
    (replica,) = trained(module, strategy, cluster, OPTIMIZERS["momentum"], loop_of(1))
    assert largest_difference(replica, train_in_numpy(module, strategy)) <= EXACT


@pytest.mark.parametrize(("way", "name", "place"), crossed(ROUNDED, ("dense", "tied", "sparse"), CLUSTERS))
def test_in_16_bits_all_replicas_stay_equal_and_near_to_whole_gradients(way: str, name: str, place: str) -> None:
    module, cluster = built(name), CLUSTERS[place]
    strategy = ROUNDED[way](model(module), cluster)
    loop, reference = loop_of(len(strategy.replicas), 4), copy.deepcopy(module)
    loop(reference, OPTIMIZERS["momentum"](reference), None, -1)
    replicas = trained(module, strategy, cluster, OPTIMIZERS["momentum"], loop)
    assert 1e-10 < largest_difference(replicas[0], reference) < 2e-2
    assert all(are_equal(replica, replicas[0]) for replica in replicas)


@pytest.mark.parametrize("way", ["top-k, own", "top-k, var, tree", "PowerSGD, servers", "fp16 ring"])
def test_over_sockets_too(way: str) -> None:
    module, cluster = built("dense"), CLUSTERS["racks"]
    strategy = (COMPRESSED | ROUNDED)[way](model(module), cluster)
    ends = [
        trained(module, strategy, cluster, OPTIMIZERS["momentum"], loop_of(len(strategy.replicas)), group)
        for group in ("threads", "sockets")
    ]
    assert all(are_equal(replica, ends[0][0]) for replicas in ends for replica in replicas)


@pytest.mark.parametrize("way", ["top-k, own", "top-k, star, ring", "PowerSGD, ring", "PowerSGD, servers"])
def test_a_run_goes_on_from_saved_memory_as_if_never_stopped(way: str) -> None:
    module, cluster = built("dense"), CLUSTERS["one node"]
    strategy, sgd = PLACED[way](model(module), cluster), OPTIMIZERS["sgd"]
    saved: list[dict[str, torch.Tensor]] = [{}, {}, {}]

    def save(
        own: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        loop_of(3, 4)(own, optimizer, synchronizer, rank)
        assert synchronizer is not None
        saved[rank] = {name: tensor.clone() for name, tensor in synchronizer.memory.items()}

    def resume(
        own: nn.Module, optimizer: torch.optim.Optimizer, synchronizer: GradientSynchronizer | None, rank: int
    ) -> None:
        assert synchronizer is not None
        assert synchronizer.memory.keys() == saved[rank].keys()
        for name, tensor in synchronizer.memory.items():
            tensor.copy_(saved[rank][name])
        loop_of(3, 8, 4)(own, optimizer, synchronizer, rank)

    half = trained(module, strategy, cluster, sgd, save)
    resumed = trained(half[0], strategy, cluster, sgd, resume)
    whole = trained(module, strategy, cluster, sgd, loop_of(3, 8))
    assert are_equal(resumed[0], whole[0])


def row(*numbers: float) -> list[AnyArray]:
    return [np.array(numbers, np.float32)]


def taken(compressor: Compressor, *steps: Sequence[list[AnyArray]]) -> list[list[float]]:
    """The mean of each of some steps of a bucket, which is the same on all ranks."""
    bucket = BucketSteps(AllReduce(0, compressor=compressor), [steps[0][0][0].shape], len(steps[0]))
    means = [same(bucket(gradients)).tolist() for gradients in steps]
    bucket.close()
    return means


def test_of_equal_magnitudes_the_first_places_are_sent_and_the_rest_is_added_later() -> None:
    first, second = row(1, -1, 1, -1, 1, -1), row(0, 0, 2, 2, 2, 2)
    zeros = row(0, 0, 0, 0, 0, 0)
    means = taken(TopK(0.5), [first, second], [zeros, zeros])
    assert means == [[0.5, -0.5, 1.5, 1, 1, 0], [0, 0, 0, -0.5, 0.5, 0.5]]


def test_replicas_choose_in_turn_or_by_the_largest_values() -> None:
    turns = [row(9, 1, 1), row(1, 9, 1), row(1, 1, 9)]
    means = taken(TopK(0.3, "star"), *[turns] * 4)
    assert [np.flatnonzero(mean).tolist() for mean in means] == [[0], [1], [2], [0]]
    # After the first step, 2, 0 and 3 are unsent; then the first and the last replica both have 3.
    means = taken(TopK(0.3, "var"), [row(2, 0, 0), row(0, 0, -9), row(0, 3, 0)], [row(1, 0, 0), *[row(0, 0, 0)] * 2])
    assert means == [[0, 0, -3], [1, 0, 0]]


COMPRESSORS: dict[str, Synchronizer] = {
    "own": AllReduce(0, compressor=TopK(0.25)),
    "star": AllReduce(0, compressor=TopK(0.25, "star")),
    "var": AllReduce(0, compressor=TopK(0.25, "var")),
    "PowerSGD": AllReduce(0, compressor=PowerSGD(1)),
    "own, server": ParameterServer("node0/cpu:0", compressor=TopK(0.25)),
    "PowerSGD, server": ParameterServer("node0/cpu:0", compressor=PowerSGD(1)),
}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_number_that_is_not_finite_reaches_all_ranks_and_is_not_remembered(name: str, bad: float) -> None:
    rng = np.random.default_rng(0)
    gradients = [[rng.normal(size=(4, 5)).astype(np.float32)] for _ in range(3)]
    steps = BucketSteps(COMPRESSORS[name], [(4, 5)], 3)
    steps(gradients)
    before = steps.remembered()
    broken = [[gradient.copy()] for (gradient,) in gradients]
    broken[2][0][1, 2] = bad
    for mean in steps(broken):
        assert not np.isfinite(mean).all()
    after = steps.remembered()
    steps.close()
    assert before[0]
    for ours, theirs in zip(after, before, strict=True):
        for memory, array in ours.items():
            np.testing.assert_array_equal(array, theirs[memory])


@pytest.mark.parametrize("name", ["PowerSGD", "PowerSGD, server"])
def test_zero_gradients_do_not_end_the_warm_start(name: str) -> None:
    rng = np.random.default_rng(0)
    left, right = rng.normal(size=(2, 12, 1)), rng.normal(size=(2, 1, 10))
    steps = BucketSteps(COMPRESSORS[name], [(12, 10)], 2)
    assert not same(steps([[np.zeros((12, 10), np.float32)]] * 2)).any()
    gradients = [(left[0] @ factor).astype(np.float32) for factor in right]
    mean = same(steps([[gradient] for gradient in gradients]))
    steps.close()
    np.testing.assert_allclose(mean.reshape(12, 10), np.mean(gradients, axis=0), atol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_columns_become_orthonormal_or_zero(scale: float) -> None:
    first, second = torch.randn(2, 50, generator=torch.Generator().manual_seed(0)) * scale
    columns = orthonormal(torch.stack([first, 3 * first, 0 * first, second, first - second], 1))
    gram = columns.T @ columns
    torch.testing.assert_close(gram, torch.diag(torch.tensor([1.0, 0, 0, 1, 0])), atol=1e-6, rtol=0)
    assert orthonormal(torch.full((3, 2), torch.nan)).isnan().all()


def test_a_product_of_thin_factors_is_their_matrix_product() -> None:
    left, right = torch.randn(7, 3), torch.randn(5, 3)
    torch.testing.assert_close(product(left, right), left @ right.T)


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("top-k, star, collective", r"variable '1\.weight' is reduced by a collective under top_k"),
        ("PowerSGD, collective", r"variable '1\.weight' is reduced by a collective under power_sgd"),
    ],
)
def test_several_messages_by_a_collective_are_refused(way: str, reason: str) -> None:
    cluster, spec = local_cluster(2), model(built("dense"))
    with pytest.raises(SpecError, match=f"The PyTorch engine does not carry out this strategy: {reason}"):
        check_supported(COMPRESSED[way](spec, cluster), spec, cluster)
