"""The contract of simulators. To test a new simulator, add a line to `SIMULATORS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import kendalltau

from autosync.cost import AnalyticSimulator, CascadeSimulator, Coefficients, Replay, Simulator
from autosync.errors import SpecError
from autosync.layout.all_reduce import layout_of
from autosync.simulator import NETWORKS, LearnedSimulator, TrainingSettings
from autosync.simulator.encoding.pooled import FEATURES, feature_table
from autosync.spec import (
    AllReduce,
    ClusterSpec,
    Device,
    ModelSpec,
    ParameterServer,
    RuntimeRecord,
    Strategy,
    Synchronizer,
    TimingProtocol,
)
from tests import cases
from tests.cost.cases import SLOW_MESSAGES
from tests.cover import thorough
from tests.space.samples import sampled
from tests.space.wide import factored_model

Maker = Callable[[], Simulator]
Restorer = Callable[[Any, Path], Simulator]


def analytic_again(simulator: AnalyticSimulator, _: Path) -> Simulator:
    restored = AnalyticSimulator()
    restored.restore(simulator.state())
    return restored


def learned_again(simulator: LearnedSimulator, directory: Path) -> Simulator:
    simulator.save(directory)
    return LearnedSimulator.load(directory)


def replay_again(simulator: Replay, _: Path) -> Simulator:
    restored = Replay()
    restored.restore(simulator.state())
    return restored


def drafted() -> CascadeSimulator:
    """Verifies all strategies of the largest batch here; another test covers larger batches."""
    return CascadeSimulator(
        AnalyticSimulator(), LearnedSimulator(AnalyticSimulator(), seed=3, settings=SHORT), verified=LARGEST
    )


def drafted_again(simulator: CascadeSimulator, directory: Path) -> Simulator:
    assert isinstance(simulator.draft, AnalyticSimulator)
    assert isinstance(simulator.best, LearnedSimulator)
    restored = analytic_again(simulator.draft, directory), learned_again(simulator.best, directory)
    return CascadeSimulator(*restored, verified=LARGEST)


MODEL, CLUSTER = factored_model(cases.bert_like_model(layers=2)), cases.star_cluster()
LAW = Coefficients(0.02, 3e-10, 2e-13, 1e-3, 4e-9, 1e-9, overlap=0.1)
CLOSED_FORM = AnalyticSimulator(LAW)
REPLAY = Replay(SLOW_MESSAGES)
"""A replay that orders only few of its strategies correctly before its fit (Kendall's tau 0.3)."""
SHORT = TrainingSettings(members=2, steps=40, batch=32, learning_rate=0.02)
LARGEST = 150


class Kind(NamedTuple):
    """How a simulator is made and restored, and the part of the law that its kind knows after a fit (`known`)."""

    maker: Maker
    again: Restorer
    known: Simulator = CLOSED_FORM


def on_replay(network: str) -> Kind:
    """A network that reads the replay's figures, trained only until it is useful."""
    return Kind(lambda: LearnedSimulator(Replay(), network, seed=3, settings=SHORT), learned_again, REPLAY)


SIMULATORS = {
    "closed form": Kind(AnalyticSimulator, analytic_again),
    "learned": Kind(lambda: LearnedSimulator(AnalyticSimulator(), seed=3), learned_again),
    "replay": Kind(Replay, replay_again, REPLAY),
    "drafted": Kind(drafted, drafted_again),
    **{f"{network} on replay": on_replay(network) for network in NETWORKS},
}
CLOSED = ("closed form", "replay")
"""The simulators that a learned simulator can equal before its fit; another test covers this."""


def law(strategies: list[Strategy], known: Simulator = CLOSED_FORM) -> np.ndarray:
    """Log seconds under a law: the part that a kind of simulator knows, plus a cost of late gradients."""
    late = feature_table(MODEL, CLUSTER, strategies, LAW)[:, FEATURES.index("late_payload_share")]
    return known.predict(MODEL, CLUSTER, strategies) + 0.2 * late


def record(strategy: Strategy, step_seconds: tuple[float, ...], outcome: str = "ok") -> RuntimeRecord:
    reason = "" if outcome == "ok" else "a reason"
    return RuntimeRecord(
        MODEL, CLUSTER, strategy, TimingProtocol(), outcome, "search", "x", "r", 0, 0.0,
        step_seconds=step_seconds, reason=reason,
    )  # fmt: skip


def records(count: int = 24, seed: int = 1, known: Simulator = CLOSED_FORM) -> list[RuntimeRecord]:
    """Return records under `law`, with ten steps each and 2 % noise a step."""
    strategies, rng = sampled(MODEL, CLUSTER, count, seed), np.random.default_rng(seed)
    times = np.exp(law(strategies, known)[:, None] + rng.normal(0, 0.02, (count, 10)))
    return [record(strategy, tuple(row)) for strategy, row in zip(strategies, times.tolist(), strict=True)]


def kinds() -> list[Any]:
    """Parametrize over `SIMULATORS`; networks that no search begins with are only in `make test-all`."""
    others = ("rnn on replay", "gat on replay")
    return [thorough(name) if name in others else name for name in SIMULATORS]


@pytest.fixture(params=kinds())
def kind(request: pytest.FixtureRequest) -> Kind:
    return SIMULATORS[request.param]


@pytest.fixture
def maker(kind: Kind) -> Maker:
    return kind.maker


@cache
def fitted(maker: Maker) -> Simulator:
    """Return the simulator after a fit; cached, because predicting changes nothing and fitting takes long."""
    made = maker()
    made.fit(records())
    return made


@pytest.fixture(
    params=[*kinds(), *(f"{name}, fresh" if name in CLOSED else thorough(f"{name}, fresh") for name in SIMULATORS)]
)
def simulator(request: pytest.FixtureRequest) -> Simulator:
    """Each simulator after its fit, and the simulators that learned ones equal before their fit."""
    name, fresh, _ = request.param.partition(", ")
    maker = SIMULATORS[name].maker
    return maker() if fresh else fitted(maker)


class TestPredictions:
    def test_one_finite_double_a_strategy(self, simulator: Simulator) -> None:
        for model in (MODEL, cases.ncf_like_model(), cases.mlp_model()):
            for cluster in (CLUSTER, cases.local_cluster(), cases.uneven_cluster(), cases.gpu_cluster()):
                predicted = simulator.predict(model, cluster, sampled(model, cluster, 5))
                assert predicted.shape == (5,)
                assert predicted.dtype == np.float64
                assert np.isfinite(predicted).all()

    def test_no_strategies_give_no_predictions(self, simulator: Simulator) -> None:
        assert simulator.predict(MODEL, CLUSTER, []).shape == (0,)

    def test_a_batch_equals_one_by_one(self, simulator: Simulator) -> None:
        strategies = sampled(MODEL, CLUSTER, LARGEST)
        batch = simulator.predict(MODEL, CLUSTER, strategies)
        some = range(0, LARGEST, 3)
        alone = np.concatenate([simulator.predict(MODEL, CLUSTER, [strategies[place]]) for place in some])
        np.testing.assert_allclose(batch[some], alone, rtol=0, atol=1e-12)

    def test_strategies_on_different_replicas_may_share_a_batch(self, simulator: Simulator) -> None:
        first, second = sampled(MODEL, CLUSTER, 2)
        fewer = replace(first, replicas=first.replicas[:2])
        mixed = simulator.predict(MODEL, CLUSTER, [first, fewer, second])
        alone = [simulator.predict(MODEL, CLUSTER, [strategy])[0] for strategy in (first, fewer, second)]
        np.testing.assert_allclose(mixed, alone, rtol=0, atol=1e-12)

    def test_predicting_changes_nothing(self, simulator: Simulator) -> None:
        strategies = sampled(MODEL, CLUSTER, 5)
        before = simulator.predict(MODEL, CLUSTER, strategies)
        simulator.predict(
            cases.mlp_model(), cases.local_cluster(), sampled(cases.mlp_model(), cases.local_cluster(), 3)
        )
        np.testing.assert_array_equal(simulator.predict(MODEL, CLUSTER, strategies), before)

    def test_a_strategy_for_another_model_is_refused_with_a_reason(self, simulator: Simulator) -> None:
        with pytest.raises(SpecError, match="this strategy is another model's"):
            simulator.predict(MODEL, CLUSTER, sampled(cases.mlp_model(), CLUSTER, 1))


def renamed(name: str) -> str:
    """A name whose alphabetical order is the reverse of the original's."""
    return "".join(chr(255 - ord(letter)) for letter in name)


def with_variables_renamed(model: ModelSpec) -> ModelSpec:
    return replace(
        model,
        variables=tuple(replace(variable, name=renamed(variable.name)) for variable in model.variables),
        operators=tuple(
            replace(operator, variables=tuple(map(renamed, operator.variables))) for operator in model.operators
        ),
    )


def with_synchronizers(strategy: Strategy, change: Callable[[Synchronizer], Synchronizer]) -> Strategy:
    return replace(
        strategy,
        variables=tuple(
            replace(variable, shards=tuple(map(change, variable.shards))) for variable in strategy.variables
        ),
    )


def on_a_tree(strategy: Strategy) -> bool:
    """Whether replicas have different roles, such as inner nodes and leaves of a tree."""
    reduced = (shard for _, _, shard in strategy.shards() if isinstance(shard, AllReduce))
    return any(layout_of(shard.algorithm).uneven(cases.star_cluster(3)) for shard in reduced)


def with_replicas_exchanged(strategy: Strategy, exchanged: dict[str, str]) -> Strategy:
    """Exchange replicas in the strategy; the GPUs of a node move with the node."""
    nodes = {Device.parse(old).node: Device.parse(new).node for old, new in exchanged.items()}

    def change(replica: str) -> str:
        device = Device.parse(replica)
        return exchanged.get(replica, str(replace(device, node=nodes.get(device.node, device.node))))

    return replace(strategy, replicas=tuple(map(change, strategy.replicas)))


class TestInvariance:
    def test_renaming_variables_changes_nothing(self, simulator: Simulator) -> None:
        strategies = sampled(MODEL, CLUSTER, 10)
        others = [
            replace(
                strategy, variables=tuple(replace(part, variable=renamed(part.variable)) for part in strategy.variables)
            )
            for strategy in strategies
        ]
        expected = simulator.predict(MODEL, CLUSTER, strategies)
        found = simulator.predict(with_variables_renamed(MODEL), CLUSTER, others)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)

    def test_renumbering_groups_changes_nothing(self, simulator: Simulator) -> None:
        strategies = sampled(MODEL, CLUSTER, 10)

        def change(shard: Synchronizer) -> Synchronizer:
            return shard if isinstance(shard, ParameterServer) else replace(shard, group=1000 - shard.group)

        assert any(isinstance(shard, AllReduce) for strategy in strategies for _, _, shard in strategy.shards())
        others = [with_synchronizers(strategy, change) for strategy in strategies]
        expected = simulator.predict(MODEL, CLUSTER, strategies)
        np.testing.assert_allclose(simulator.predict(MODEL, CLUSTER, others), expected, rtol=0, atol=1e-9)

    @pytest.mark.parametrize(
        ("cluster", "exchanged"),
        [
            (cases.star_cluster(), {"node0/cpu:0": "node2/cpu:0", "node2/cpu:0": "node0/cpu:0"}),
            (cases.local_cluster(), {"node0/cpu:0": "node0/cpu:3", "node0/cpu:3": "node0/cpu:0"}),
            (cases.uneven_cluster(), {"node1/cpu:0": "node2/cpu:0", "node2/cpu:0": "node1/cpu:0"}),
            (cases.star_cluster(3, workers=2), {"node1/cpu:0": "node1/cpu:1", "node1/cpu:1": "node1/cpu:0"}),
            (cases.gpu_cluster(), {"node0/cpu:0": "node1/cpu:0", "node1/cpu:0": "node0/cpu:0"}),
        ],
        ids=["nodes of a star", "workers of a machine", "two nodes alike", "workers of a node", "nodes with GPUs"],
    )
    def test_exchanging_devices_alike_changes_nothing(
        self, simulator: Simulator, cluster: ClusterSpec, exchanged: dict[str, str]
    ) -> None:
        strategies = sampled(MODEL, cluster, 10)

        def change(shard: Synchronizer) -> Synchronizer:
            if isinstance(shard, AllReduce):
                return shard
            return replace(shard, device=exchanged.get(shard.device, shard.device))

        others = [with_synchronizers(strategy, change) for strategy in strategies]
        assert others != strategies
        others = [
            with_replicas_exchanged(strategy, exchanged) if on_a_tree(strategy) else strategy for strategy in others
        ]
        expected = simulator.predict(MODEL, cluster, strategies)
        np.testing.assert_allclose(simulator.predict(MODEL, cluster, others), expected, rtol=0, atol=1e-9)


@pytest.mark.quick("closed form", "learned", "drafted")
class TestLearning:
    def test_records_of_a_law_improve_the_ranking_of_other_strategies(self, kind: Kind) -> None:
        others = sampled(MODEL, CLUSTER, LARGEST, seed=2)
        truth = law(others, kind.known)
        made = kind.maker()
        before = made.predict(MODEL, CLUSTER, others)
        made.fit(records(60, known=kind.known))
        after = made.predict(MODEL, CLUSTER, others)
        knowing = kind.known.predict(MODEL, CLUSTER, others)
        unlearned, learned, known = (kendalltau(times, truth)[0] for times in (before, after, knowing))
        assert learned > max(unlearned, 0.9 * known)
        assert np.abs(after - truth).mean() < 0.05

    def test_records_without_a_time_are_passed_over(self, maker: Maker) -> None:
        useless = [record(strategy, (), "failed") for strategy in sampled(MODEL, CLUSTER, 3, seed=5)]
        useless += [record(strategy, (9.0,), "timed_out") for strategy in sampled(MODEL, CLUSTER, 3, seed=6)]
        with_them, without = maker(), fitted(maker)
        with_them.fit([*useless[:3], *records(), *useless[3:]])
        others = sampled(MODEL, CLUSTER, 5, seed=7)
        expected = without.predict(MODEL, CLUSTER, others)
        np.testing.assert_array_equal(with_them.predict(MODEL, CLUSTER, others), expected)

    def test_weights_of_one_say_nothing_and_a_record_without_weight_is_as_none(self, maker: Maker) -> None:
        weighed, plain = maker(), fitted(maker)
        weighed.fit([*records(), *records(5, seed=8)], [1.0] * 24 + [0.0] * 5)
        others = sampled(MODEL, CLUSTER, 5, seed=7)
        expected = plain.predict(MODEL, CLUSTER, others)
        np.testing.assert_allclose(weighed.predict(MODEL, CLUSTER, others), expected, rtol=0, atol=1e-12)

    def test_nothing_but_useless_records_teaches_nothing(self, maker: Maker) -> None:
        made, others = maker(), sampled(MODEL, CLUSTER, 5)
        made.fit([record(strategy, (), "failed") for strategy in others])
        expected = maker().predict(MODEL, CLUSTER, others)
        np.testing.assert_array_equal(made.predict(MODEL, CLUSTER, others), expected)

    def test_one_record_a_strategy_or_the_same_twice_is_no_trouble(self, maker: Maker) -> None:
        others = sampled(MODEL, CLUSTER, 5)
        for few in (records(1), records(1) * 2, [record(others[0], (1.0,), "stopped")]):
            made = maker()
            made.fit(few)
            assert np.isfinite(made.predict(MODEL, CLUSTER, others)).all()

    def test_same_records_same_numbers_whatever_was_learned_before(self, maker: Maker) -> None:
        first, second = fitted(maker), maker()
        second.fit(records(10, seed=9))
        second.fit(records())
        others = sampled(MODEL, CLUSTER, 5)
        expected = first.predict(MODEL, CLUSTER, others)
        np.testing.assert_array_equal(second.predict(MODEL, CLUSTER, others), expected)


@pytest.mark.parametrize("name", kinds())
@pytest.mark.parametrize("made_by", [lambda maker: maker(), fitted], ids=["fresh", "fitted"])
def test_saved_and_restored_it_gives_the_same_numbers(
    name: str, made_by: Callable[[Maker], Simulator], tmp_path: Path
) -> None:
    maker, again, _ = SIMULATORS[name]
    made, others = made_by(maker), sampled(MODEL, CLUSTER, 20, seed=4)
    restored = again(made, tmp_path)
    np.testing.assert_array_equal(restored.predict(MODEL, CLUSTER, others), made.predict(MODEL, CLUSTER, others))
