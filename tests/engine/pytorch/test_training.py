"""Training of modules: states to the bit, data by number, and the loss of targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SubsetRandomSampler

from autosync.baselines import BASELINES
from autosync.engine.core.contract import Runner
from autosync.engine.core.registry import engine_named
from autosync.engine.core.step_state import StepState
from autosync.engine.pytorch.arrays import array_of, tensor_of
from autosync.engine.pytorch.capture import CapturedModule, capture, profile
from autosync.engine.pytorch.checkpoint import checkpoint_bytes, read_checkpoint
from autosync.engine.pytorch.numbered_batches import NumberedBatches
from autosync.engine.pytorch.task import build_task
from autosync.errors import ModelError, SpecError
from autosync.numeric import AnyArray
from autosync.spec import AllReduce, ClusterSpec, PowerSGD, Strategy, Target, TopK, VariableStrategy
from tests.cases import local_cluster, star_cluster
from tests.engine.pytorch.model_functions import BATCH, EXAMPLES, MODELS, examples
from tests.engine.pytorch.test_session import Processes, paced
from trials.clock import WallClock
from trials.to_target import TargetRequest, run_to_target
from trials.trial import TrialSetup

ENGINE = engine_named("pytorch")
REPLICAS = 3

Start = Callable[[CapturedModule, ClusterSpec, str], Runner]


@cache
def captured(builder: str) -> CapturedModule:
    ENGINE.use_logical_devices(REPLICAS)
    return profile(capture(build_task(builder)))


def in_order(strategy: Strategy) -> Strategy:
    """The strategy with its replicas in another order than the ranks."""
    return replace(strategy, replicas=strategy.replicas[::-1])


@pytest.fixture(params=["threads", "processes"])
def start(request: pytest.FixtureRequest) -> Start:
    def make(model: CapturedModule, cluster: ClusterSpec, baseline: str = "byteps") -> Runner:
        strategy = in_order(BASELINES[baseline](model.spec, cluster))
        if request.param == "threads":
            return ENGINE.local_training(model, cluster, strategy)
        return Processes(len(cluster.replica_devices)).client.training(model, cluster, strategy, None)

    return make


def arrays(state: StepState) -> dict[str, AnyArray]:
    """All arrays of a state, by a name."""
    groups = {"values": {name: (array,) for name, array in state.values.items()}, "slots": state.slots}
    groups |= {"scalars": state.scalars, "replicas": dict(enumerate(state.replica_state))}
    return {
        f"{group} {name} {number}": array
        for group, named in groups.items()
        for name, listed in named.items()
        for number, array in enumerate(listed)
    }


def check_equal(state: StepState, expected: StepState) -> None:
    first, second = arrays(state), arrays(expected)
    assert first.keys() == second.keys()
    for name, array in first.items():
        assert (array.dtype, array.tobytes()) == (second[name].dtype, second[name].tobytes()), name
    assert state.replica_steps == expected.replica_steps


@pytest.mark.parametrize("model", MODELS)
def test_a_loaded_state_goes_on_to_the_same_bits(start: Start, model: str) -> None:
    cluster, module = local_cluster(REPLICAS), captured(MODELS[model])
    begun = start(module, cluster, "byteps")
    begin = begun.state()
    first = [begun.own() for _ in range(3)]
    middle = begun.state()
    rest = [begun.own() for _ in range(3)]
    end = begun.state()
    begun.close()
    assert middle.replica_steps == (3,) * REPLICAS
    again = start(module, cluster, "byteps")
    again.own()  # the state takes the place of another one
    again.load(middle)
    assert [again.own() for _ in range(3)] == rest
    check_equal(again.state(), end)
    again.load(begin)
    assert [again.own() for _ in range(3)] == first
    check_equal(again.state(), middle)
    again.close()


@pytest.mark.parametrize("compressor", [TopK(0.3), PowerSGD(1)], ids=["top-k", "PowerSGD"])
def test_the_memory_of_compressors_is_part_of_the_state(start: Start, compressor: Any) -> None:
    cluster, module = local_cluster(REPLICAS), captured(MODELS["sparse"])
    replicas = tuple(map(str, cluster.replica_devices))
    shards = [AllReduce(0), AllReduce(1, compressor=compressor), AllReduce(2)]  # a sparse table, a matrix, a bias
    decided = zip(sorted(module.spec.by_name), (shards[0], shards[2], shards[1]), strict=True)
    strategy = Strategy(replicas, tuple(VariableStrategy(name, (shard,)) for name, shard in decided))
    runners = [ENGINE.local_training(module, cluster, strategy) for _ in range(2)]
    for _ in range(3):
        runners[0].own()
    state = runners[0].state()
    assert any(name.startswith("memory/") and arrays[0].any() for name, arrays in state.scalars.items())
    runners[1].load(read_checkpoint(checkpoint_bytes(state, module), "file", module))
    for _ in range(3):
        assert runners[0].own() == runners[1].own()
    check_equal(runners[0].state(), runners[1].state())
    with pytest.raises(SpecError, match="must have the memory of this strategy's compressors"):
        runners[1].load(start(module, cluster, "byteps").state())
    for runner in runners:
        runner.close()


@pytest.mark.parametrize("baseline", ["byteps", "all_reduce_25mb", "partitioned_parameter_server"])
def test_replicas_train_as_one_process_on_all_their_batches(start: Start, baseline: str) -> None:
    cluster, module = local_cluster(REPLICAS), captured(MODELS["dense"])
    runner, steps = start(module, cluster, baseline), 2 * EXAMPLES // (BATCH * REPLICAS)
    losses = [runner.own() for _ in range(steps)]
    alone = module.task.fresh()
    for step in range(steps):
        batches = [alone.training_batch(REPLICAS * step + rank) for rank in range(REPLICAS)]
        alone.optimizer.zero_grad()
        loss = alone.loss_on((torch.cat([batch[0] for batch in batches]), torch.cat([batch[1] for batch in batches])))
        loss.backward()
        alone.optimizer.step()
        assert losses[step] == pytest.approx(float(loss.detach()), abs=1e-10)
    values = runner.state().values
    for name, parameter in alone.parameters.items():
        assert np.abs(values[name] - parameter.detach().numpy()).max() <= 1e-10
    runner.close()


def test_paced_passes_hold_real_gradients(start: Start) -> None:
    module = captured(MODELS["noisy"])
    losses = []
    for cluster in (star_cluster(nodes=2, workers=1), paced(star_cluster(nodes=2, workers=1), "recorded")):
        runner = start(module, cluster, "byteps")
        losses.append([runner.own() for _ in range(3)])
        runner.close()
    assert losses[0] == losses[1]


def test_the_state_of_another_model_or_of_fewer_replicas_is_refused(start: Start) -> None:
    dense, noisy = captured(MODELS["dense"]), captured(MODELS["noisy"])
    runner = start(noisy, local_cluster(2), "byteps")
    fewer, other = runner.state(), start(dense, local_cluster(2), "byteps").state()
    with pytest.raises(SpecError, match=r"the parameters of 'tests\S+:noisy' in their shapes; this is another model's"):
        runner.load(other)
    larger = start(noisy, local_cluster(3), "byteps")
    with pytest.raises(SpecError, match="4 untrained tensors for each of 3 replicas"):
        larger.load(fewer)


def test_an_optimizer_that_keeps_other_objects_cannot_be_saved(start: Start) -> None:
    runner = start(captured("tests.engine.pytorch.model_functions:listing"), local_cluster(2), "byteps")
    runner.own()
    with pytest.raises(SpecError, match=r"the optimizer keeps a list at '(bias|weight)/past'"):
        runner.state()
    runner.own()


def test_data_from_elsewhere_are_refused(start: Start) -> None:
    runner = start(captured(MODELS["dense"]), local_cluster(2), "byteps")
    for act in (lambda: runner.on([[]], [1]), lambda: runner.open_feed(lambda *_: iter(()), ()), runner.read):
        with pytest.raises(SpecError, match="Modules train on the batches of their model function; give it a DataLo"):
            act()
    assert runner.take_metrics() == ()


def test_the_loss_of_a_target_is_that_of_the_first_batches_without_dropout() -> None:
    module, cluster = captured(MODELS["noisy"]), local_cluster(2)
    session = ENGINE.local_session(module, cluster).with_real_gradients()
    step = session.realize(BASELINES["byteps"](module.spec, cluster))
    for _ in range(3):
        step()
    state, task = step.state(), module.task.fresh()
    step.close()
    names = sorted(set(module.values) - set(state.values))
    own = {name: tensor_of(array) for name, array in zip(names, state.replica_state[0], strict=True)}
    task.module.load_state_dict(own | {name: tensor_of(array) for name, array in state.values.items()})
    task.module.eval()
    inputs, targets = zip(*(task.training_batch(number) for number in range(32)), strict=True)
    expected = float(task.loss_on((torch.cat(inputs), torch.cat(targets))).detach())
    assert session.evaluation(2).loss(state.values, state.replica_state[0]) == pytest.approx(expected, abs=1e-12)


def test_a_trial_trains_to_a_target_on_other_batches_for_another_seed() -> None:
    module, cluster = captured(MODELS["dense"]), local_cluster(2)
    session = Processes(2).client.session(module, cluster, None).with_real_gradients()
    strategy, stage = BASELINES["byteps"](module.spec, cluster), TrialSetup(module.spec, cluster, WallClock())
    records = [
        run_to_target(session, TargetRequest(strategy, Target("loss", 0.9, every=5, steps=200), seed), stage)
        for seed in (0, 0, 1)
    ]
    assert [record.outcome for record in records] == ["reached"] * 3, [record.reason for record in records]
    first, again, other = ([point.value for point in record.curve] for record in records)
    assert first == again
    assert first[0] == other[0]
    assert first[1:] != other[1:]


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_every_epoch_has_every_example_once(is_shuffled: bool) -> None:
    batches = NumberedBatches(DataLoader(range(10), 3, shuffle=is_shuffled), "m:f")  # type: ignore[arg-type]
    epochs = [[int(x) for n in range(3) for x in batches.read(3 * epoch + n)] for epoch in range(3)]
    assert all(len(set(epoch)) == 9 for epoch in epochs)
    assert (epochs[0] == epochs[1] == list(range(9))) is not is_shuffled
    assert epochs[2] == [int(x) for n in range(6, 9) for x in batches.read(n)]


class Stream(IterableDataset[int]):
    """Examples without numbers."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(9))


LOADERS: dict[str, tuple[Callable[[], DataLoader[Any]], str]] = {
    "stream": (lambda: DataLoader(Stream(), 2), "data set must have examples by number"),
    "no batches": (lambda: DataLoader(examples(), None), "must have a batch_size and no sampler of its own"),
    "own sampler": (lambda: DataLoader(examples(), 2, sampler=SubsetRandomSampler([1, 2])), "no sampler of its own"),
    "with replacement": (
        lambda: DataLoader(examples(), 2, sampler=RandomSampler(examples(), replacement=True)),
        "no sampler of its own",
    ),
    "too few": (lambda: DataLoader(examples(), EXAMPLES + 1), f"has {EXAMPLES} examples, too few for a batch of"),
}


@pytest.mark.parametrize("case", LOADERS)
def test_a_loader_whose_batches_have_no_numbers_is_refused(case: str) -> None:
    make, sentence = LOADERS[case]
    with pytest.raises(ModelError, match=f"'m:f': .*{sentence}"):
        NumberedBatches(make(), "m:f")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.bool, torch.int64])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_arrays_keep_dtype_shape_and_bits(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = torch.full(shape, 1).to(dtype)
    back = tensor_of(array_of(tensor))
    assert (back.dtype, back.shape) == (dtype, tensor.shape)
    assert torch.equal(back.float(), tensor.float())
