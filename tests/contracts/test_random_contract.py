"""Whole strategies out of a wide space, for models drawn at random, under any optimizer: mixtures nobody thought of."""

from __future__ import annotations

import random

import pytest

from autosync.space import ALGORITHMS, LOSSLESS, Cut, PartBytes, PerServer, Rule, Servers, Space
from autosync.spec import SufficientFactors, canonical_json
from tests.cases import local_cluster, star_cluster
from tests.contracts.parity import BOUNDS, reference, session_on, trained_alike
from tests.cover import thorough

CLUSTERS = (local_cluster(3), star_cluster(nodes=2, workers=2), star_cluster(nodes=3, workers=1))
WIDE = Space(
    "wide",
    (
        Rule(
            servers=Servers(local_copy=(False, True)),
            all_reduce=True,
            algorithms=ALGORITHMS,
            compressors=(None, SufficientFactors()),
            cut=Cut(counts=(1, 2, PerServer(1), PartBytes(64)), axes="every", min_shard_bytes=4),
            mixed_shards=True,
        ),
    ),
    max_buckets=6,
)
CASES = 12


@pytest.mark.parametrize("seed", [*range(2), *map(thorough, range(2, CASES))])
def test_any_strategy_trains_any_model_like_one_process(seed, tally):
    rng = random.Random(seed)
    task, optimizer, cluster = f"random {seed}", rng.choice(sorted(BOUNDS)), rng.choice(CLUSTERS)
    session = session_on(task, optimizer, cluster)
    space = WIDE.bind(session.model, cluster)
    strategy = space.sample(rng)
    for _ in range(rng.randrange(4)):
        strategy = space.mutate(strategy, rng)
    try:
        step = session.realize(strategy)
        parity = trained_alike(step, reference(task, optimizer, len(strategy.replicas)), BOUNDS[optimizer])
    except Exception as error:
        raise AssertionError(f"{error}\n{optimizer} on {task!r} under {canonical_json(strategy.to_json())}") from error
    tally("random models", parity.worst_error)


def test_the_wide_space_is_lossless():
    assert SufficientFactors() in LOSSLESS
    assert not WIDE.changes_statistics
