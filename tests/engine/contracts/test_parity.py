"""The parity contract: under any strategy, replicas train like one process on the whole batch, with equal bits."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from autosync.baselines import baselines_for
from autosync.engine.core.registry import engine_named
from autosync.numeric import AnyArray
from autosync.space import ALGORITHMS, Cut, PartBytes, PerServer, Rule, Servers, Space
from autosync.spec import ClusterSpec, Strategy, SufficientFactors
from tests.cases import local_cluster, racks, star_cluster
from tests.contracts.ways import ALONE
from tests.cover import crossed, thorough
from tests.engine.contracts.conftest import SUBJECTS
from tests.engine.contracts.nets import NETS
from tests.engine.contracts.subject import Case, Subject, session_on

CLUSTERS = {
    "one worker": local_cluster(1),
    "one node": local_cluster(3),
    "two nodes of two": star_cluster(nodes=2, workers=2),
    "three nodes": star_cluster(nodes=3, workers=1),
    "racks of two and three": racks(2, 3),
}
PLACES = [name for name, cluster in CLUSTERS.items() if len(cluster.replica_devices) > 1]
BASELINES = baselines_for("tensorflow")
"""The baselines that engines carry out themselves."""
STEPS = 4
BOUNDS = {"float64": 1e-10, "float32": 1e-5}
"""The largest max|a - b| / max|b| of a variable; for float32 see `tests.contracts.parity.BOUNDS`."""


def wide(algorithms: Sequence[str] = ALGORITHMS) -> Space:
    """All lossless strategies, in small parts."""
    rule = Rule(
        servers=Servers(local_copy=(False, True)),
        all_reduce=True,
        algorithms=tuple(algorithms),
        compressors=(None, SufficientFactors()),
        cut=Cut(counts=(1, 2, PerServer(1), PartBytes(64)), axes="every", min_shard_bytes=4),
        mixed_shards=True,
    )
    return Space("wide", (rule,), max_buckets=6)


def trained(subject: Subject, case: Case, cluster: ClusterSpec, strategy: Strategy) -> dict[str, AnyArray]:
    """The values after `STEPS` steps. Raises `AssertionError` unless all replicas begin at the model's values, and end
    at those of one process with equal bits."""
    session = session_on(subject, case, cluster)
    assert engine_named(subject.name).refusals(strategy, session.model, cluster) == ()
    step, replicas, start = session.realize(strategy), range(len(strategy.replicas)), case.net.values(case.dtype)
    for replica in replicas:
        assert all(value.tobytes() == start[name].tobytes() for name, value in subject.values(step, replica).items())
    for _ in range(STEPS):
        step()
    values, *others = (subject.values(step, replica) for replica in replicas)
    step.close()
    expected = subject.reference(case, len(replicas), STEPS)
    assert values.keys() == expected.keys() == start.keys()
    for name, value in values.items():
        assert (value.dtype, value.shape) == (expected[name].dtype, expected[name].shape)
        assert all(other[name].tobytes() == value.tobytes() for other in others), f"Replicas differ in {name!r}."
        assert error(value, expected[name]) <= BOUNDS[case.dtype], name
    assert any(error(value, start[name]) > 1e-3 for name, value in values.items()), "Nothing was trained."
    return values


def error(value: AnyArray, expected: AnyArray) -> float:
    return float(np.abs(value - expected).max() / np.abs(expected).max())


def optimizers_for(net: str) -> list[str]:
    """The optimizers that take the model's gradients: PyTorch's Adam takes no sparse ones."""
    return ["adam"] * (not Case(net).net.is_sparse) + ["momentum", "adagrad", "sgd"]


@pytest.mark.parametrize(("baseline", "net", "place"), crossed(BASELINES, NETS, CLUSTERS))
def test_baselines_train_like_one_process(subject: Subject, baseline: str, net: str, place: str) -> None:
    case, cluster = Case(net, optimizers_for(net)[0]), CLUSTERS[place]
    trained(subject, case, cluster, BASELINES[baseline](session_on(subject, case, cluster).model, cluster))


@pytest.mark.quick(
    "*-one server-*",
    "*-servers, first axis cut-*",
    "*-rings, first axis cut-*",
    "*-halving and doubling-*",
    "*-BlueConnect-*",
    "*-hierarchies, first axis cut-*",
    "*-fitted-*",
    "*-every algorithm-*",
    "*-shards of both kinds-*",
)
@pytest.mark.parametrize(("way", "net"), crossed(ALONE, NETS))
def test_every_variable_in_one_way_trains_like_one_process_in_float32(subject: Subject, way: str, net: str) -> None:
    case, cluster = Case(net, dtype="float32"), CLUSTERS[random.Random(way + net).choice(PLACES)]
    trained(subject, case, cluster, ALONE[way](session_on(subject, case, cluster).model, cluster))


@pytest.mark.parametrize("seed", [*range(8), *map(thorough, range(8, 100))])
def test_any_strategy_trains_any_model_like_one_process(subject: Subject, seed: int) -> None:
    rng = random.Random(seed)
    net, cluster = f"drawn {seed}", CLUSTERS[rng.choice(sorted(CLUSTERS))]
    case = Case(net, rng.choice(optimizers_for(net)))
    space = wide().bind(session_on(subject, case, cluster).model, cluster)
    strategy = space.sample(rng)
    for _ in range(rng.randrange(4)):
        strategy = space.mutate(strategy, rng)
    trained(subject, case, cluster, strategy)


@pytest.mark.parametrize("seed", [*range(3), *map(thorough, range(3, 20))])
def test_a_strategy_of_one_engine_gives_the_same_values_on_all(seed: int) -> None:
    rng = random.Random(seed)
    case, cluster = Case(rng.choice(list(NETS))), CLUSTERS[rng.choice(sorted(CLUSTERS))]
    first, *others = SUBJECTS.values()
    strategy = wide().bind(session_on(first, case, cluster).model, cluster).sample(rng)
    values = trained(first, case, cluster, strategy)
    for subject in others:
        renamed = Strategy.from_json(first.renamed(strategy, subject).to_json())
        for name, value in trained(subject, case, cluster, renamed).items():
            assert error(value, values[name]) <= BOUNDS["float64"]
