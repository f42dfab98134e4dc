"""Looked-up rows of a tied table that are sent apart leave the numbers of training as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from autosync.baselines import BASELINES
from autosync.cost import traffic
from autosync.engine.core.registry import engine_named
from autosync.engine.pytorch.capture import CapturedModule, capture, profile
from autosync.engine.pytorch.lookups import ApartLookups, lookups_of
from autosync.engine.pytorch.synchronizer import GradientSynchronizer
from autosync.errors import SpecError
from autosync.layout.apart import rows_of
from autosync.spec import (
    Cast,
    ModelProfile,
    ModelSpec,
    Pace,
    RuntimeRecord,
    Strategy,
    Synchronizer,
    TimingProtocol,
    VariableUse,
)
from autosync.zoo import build_task
from tests.cases import local_cluster
from tests.cover import crossed
from tests.engine.pytorch.models import ROWS, batches, built, loss
from tests.engine.pytorch.ranks import GROUPS, are_equal, largest_difference, trained
from tests.engine.pytorch.test_parity import CLUSTERS, OPTIMIZERS, check_parity, model, share_of, strategy_for
from tests.engine.pytorch.test_parity import plain as plain_loop
from tests.engine.pytorch.test_traffic import bytes_of_a_step, check_links
from trials.clock import Environment, WallClock
from trials.trial import TrialRequest, TrialSetup, run_trial

TABLE = "table.weight"

UNCOMPRESSED = [
    name
    for name in BASELINES
    if not any(shard.compressor for _, _, shard in strategy_for(name, built("tied"), CLUSTERS["racks"]).shards())
]

Optimizer = torch.optim.Optimizer


def rows_apart(strategy: Strategy, table: str = TABLE) -> Strategy:
    variables = tuple(
        replace(decision, rows_apart=True) if decision.variable == table else decision
        for decision in strategy.variables
    )
    return replace(strategy, variables=variables)


@pytest.mark.parametrize("overlaps", [False, True], ids=["barrier", "free"])
@pytest.mark.parametrize(("baseline", "optimizer", "place"), crossed(UNCOMPRESSED, OPTIMIZERS, CLUSTERS))
def test_replicas_train_like_one_process(baseline: str, optimizer: str, place: str, overlaps: bool) -> None:
    module, cluster = built("tied"), CLUSTERS[place]
    strategy = rows_apart(strategy_for(baseline, module, cluster))
    check_parity(module, strategy, cluster, OPTIMIZERS[optimizer], overlaps=overlaps)


@pytest.mark.parametrize("group", [name for name in GROUPS if name != "threads"])
def test_over_other_transports(group: str) -> None:
    module, cluster = built("tied"), CLUSTERS["two nodes of two"]
    strategy = rows_apart(strategy_for("byteps", module, cluster))
    check_parity(module, strategy, cluster, OPTIMIZERS["adam"], group=group)


@pytest.mark.parametrize("overlaps", [False, True], ids=["barrier", "free"])
@pytest.mark.parametrize("to_none", [False, True], ids=["to zero", "to none"])
def test_accumulated_and_clipped_gradients_are_whole(overlaps: bool, to_none: bool) -> None:
    module, cluster = built("tied"), CLUSTERS["three nodes"]

    def loop(own: nn.Module, optimizer: Optimizer, synchronizer: GradientSynchronizer | None, rank: int) -> None:
        first, second, *_ = batches(3)
        for _ in range(3):
            optimizer.zero_grad(set_to_none=to_none)
            if synchronizer is None:
                loss(own, first).backward()
            else:
                with synchronizer.paused():
                    loss(own, share_of(first, rank)).backward()
            loss(own, share_of(second, rank)).backward()
            loss(own, share_of(first, rank)).backward()
            assert torch.nn.utils.clip_grad_norm_(own.parameters(), 0.05) > 0.05
            optimizer.step()

    strategy = rows_apart(strategy_for("all_reduce_25mb", module, cluster))
    check_parity(module, strategy, cluster, OPTIMIZERS["momentum"], loop, overlaps=overlaps)


def test_the_rest_of_a_gradient_may_be_compressed() -> None:
    module, cluster = built("tied"), CLUSTERS["three nodes"]
    plain = rows_apart(strategy_for("all_reduce_25mb", module, cluster))
    cast: dict[Synchronizer, Synchronizer] = {
        shard: replace(shard, compressor=Cast("bf16")) for _, _, shard in plain.shards()
    }
    strategy = replace(plain, variables=tuple(decision.replace_synchronizers(cast) for decision in plain.variables))
    assert strategy.rows_apart == (TABLE,)
    ends = [
        trained(module, way, cluster, OPTIMIZERS["momentum"], plain_loop(3), overlaps=overlaps)
        for way, overlaps in ((plain, False), (strategy, False), (strategy, True))
    ]
    assert all(are_equal(ends[1][0], replica) for end in ends[1:] for replica in end)
    assert 1e-9 < largest_difference(ends[0][0], ends[1][0]) < 1e-2


def test_a_batch_without_some_gradients_counts_them_as_zeros() -> None:
    module, cluster = built("tied"), CLUSTERS["three nodes"]
    strategy = rows_apart(strategy_for("byteps", module, cluster))

    def loop(own: nn.Module, optimizer: Optimizer, synchronizer: GradientSynchronizer | None, rank: int) -> None:
        del synchronizer
        for examples in batches(3, steps=2):
            optimizer.zero_grad()
            table = own.get_submodule("table")
            hidden = table(share_of(examples, rank).long()) if rank < 2 else own.get_parameter(TABLE)
            (hidden.square().mean() + 0 * sum(p.sum() for n, p in own.named_parameters() if n != TABLE)).backward()
            optimizer.step()

    replicas = trained(module, strategy, cluster, OPTIMIZERS["sgd"], loop, unused="zeros")
    assert not are_equal(replicas[0], module)
    assert all(are_equal(replica, replicas[0]) for replica in replicas)


def test_gradients_are_whole_after_a_backward_pass_and_values_are_read_late() -> None:
    module, cluster = built("tied"), CLUSTERS["one node"]
    strategy = rows_apart(strategy_for("byteps", module, cluster))

    def loop(own: nn.Module, optimizer: Optimizer, synchronizer: GradientSynchronizer | None, rank: int) -> None:
        del optimizer
        assert synchronizer is not None
        loss(own, share_of(batches(3)[0], rank)).backward()
        rows = synchronizer.parameters[rows_of(TABLE)]
        assert rows.grad is None
        assert rows.data_ptr() == own.get_parameter(TABLE).data_ptr()
        assert list(own.state_dict()) == list(built("tied").state_dict())
        whole = built("tied")
        loss(whole, batches(3)[0]).backward()
        for name, parameter in whole.named_parameters():
            torch.testing.assert_close(own.get_parameter(name).grad, parameter.grad, rtol=0, atol=1e-12)

    for overlaps in (False, True):
        trained(module, strategy, cluster, OPTIMIZERS["sgd"], loop, overlaps=overlaps)


def with_uses(module: nn.Module, rows: float) -> ModelSpec:
    """The spec of a tied module, with a profile in which the table's lookups touch `rows` rows."""
    spec = model(module)
    ready = {variable.name: (variable.ready_order + 1) / len(spec.variables) for variable in spec.variables}
    uses = (VariableUse(TABLE, 0.0, ready[TABLE], rows), VariableUse(TABLE, 0.9, 0.1))
    return replace(spec, profile=ModelProfile(0.1, 0.2, ready, {name: 1 - at for name, at in ready.items()}, uses))


@pytest.mark.parametrize("place", CLUSTERS)
def test_links_carry_the_predicted_bytes(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    module, cluster = built("tied"), CLUSTERS[place]
    strategy = rows_apart(strategy_for("all_reduce_25mb", module, cluster))
    replicas = len(strategy.replicas)
    touched = [len(share_of(batches(replicas)[0], rank).unique()) for rank in range(replicas)]
    spec = with_uses(module, sum(touched) / replicas)
    counted = bytes_of_a_step(monkeypatch, module, strategy, cluster)
    if len(set(touched)) == 1:
        check_links(counted, spec, strategy, cluster)
    assert sum(counted.values()) == pytest.approx(traffic(spec, cluster, strategy).bytes.sum(), rel=0.03)


def test_only_lookups_by_an_embedding_can_be_caught() -> None:
    class ByHand(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(ROWS, 2))

    module = ByHand()
    with pytest.raises(
        SpecError, match=r"The looked-up rows of parameter 'weight' can only be caught in an nn.Embedding"
    ):
        ApartLookups(module, {"weight": module.weight})
    scaled = nn.Embedding(ROWS, 2, scale_grad_by_freq=True)
    assert not lookups_of(scaled, scaled.weight)
    assert not lookups_of(nn.Embedding(ROWS, 2, sparse=True), module.weight)


def test_hooks_leave_the_module_as_it_was() -> None:
    module = built("tied")
    table = module.get_submodule("table")
    assert isinstance(table, nn.Embedding)
    lookups = ApartLookups(module, {TABLE: table.weight})
    with pytest.raises(IndexError):
        module(torch.full((1, 3), ROWS))
    assert table.weight is module.get_parameter(TABLE)
    assert not table.sparse
    with torch.no_grad():
        module(torch.zeros(1, 3))
    loss(module, batches(1)[0]).backward()
    rows = lookups.named[rows_of(TABLE)]
    assert rows.grad is not None
    assert rows.grad.is_sparse
    lookups.fold(rows)
    whole = built("tied")
    loss(whole, batches(1)[0]).backward()
    torch.testing.assert_close(module.get_parameter(TABLE).grad, whole.get_parameter(TABLE).grad)
    lookups.remove()
    module.zero_grad()
    loss(module, batches(1)[0]).backward()
    assert rows.grad is None


def test_an_optimizer_of_holders_is_refused() -> None:
    module, cluster = built("tied"), CLUSTERS["one node"]
    strategy = rows_apart(strategy_for("byteps", module, cluster))
    with pytest.raises(SpecError, match="leave out optimizer=, or set rows_apart to false"):
        trained(module, strategy, cluster, OPTIMIZERS["sgd"], lambda *_: None, holders_update=True)


ENGINE = engine_named("pytorch")


@pytest.fixture(scope="module")
def captured() -> CapturedModule:
    ENGINE.use_logical_devices(2)
    return profile(capture(build_task("bert-mini", framework="pytorch")))


def test_a_paced_trial_of_rows_apart_is_recorded(captured: CapturedModule) -> None:
    cluster = local_cluster(2)
    nodes = tuple(replace(node, pace=Pace(0.0, 0.05, "recorded")) for node in cluster.nodes)
    paced = replace(cluster, nodes=nodes)
    strategy = rows_apart(BASELINES["byteps"](captured.spec, cluster), "tokens.weight")
    record = run_trial(
        ENGINE.local_session(captured, paced),
        TrialRequest(strategy, TimingProtocol(1, 3)),
        TrialSetup(captured.spec, paced, WallClock(), Environment.here(ENGINE)),
    )
    assert record.pace is not None
    assert record.reason == (record.pace.fault or "")  # on a busy machine, releases are late
    assert min(record.step_seconds) >= 0.05
    assert RuntimeRecord.from_json(record.to_json()).strategy == strategy


@pytest.mark.parametrize(("numbers", "overlaps"), [("recorded", False), ("held", True)])
def test_paced_passes_of_a_tied_model_train_to_the_same_values(
    captured: CapturedModule, numbers: str, overlaps: bool
) -> None:
    assert captured.spec.weight_tied_tables == ("tokens.weight",)
    cluster = local_cluster(2)
    nodes = tuple(replace(node, pace=Pace(0.0, 0.02, numbers)) for node in cluster.nodes)
    paced = replace(cluster, nodes=nodes)
    plain = replace(BASELINES["byteps"](captured.spec, cluster), overlap_next_forward=overlaps)
    ends = []
    for strategy in (plain, rows_apart(plain, "tokens.weight")):
        step = ENGINE.local_session(captured, paced).realize(strategy)
        losses = [step() for _ in range(3)]
        values = [step.values(replica) for replica in range(2)]
        assert all((values[0][name] == values[1][name]).all() for name in values[0])
        ends.append((losses, values[0]))
        step.close()
    assert ends[1][0] == pytest.approx(ends[0][0], rel=1e-5)
    for name, value in ends[0][1].items():
        assert ends[1][1][name] == pytest.approx(value, abs=1e-5), name
