"""The space of `bert` without the all-reduces that are fitted to a topology, to measure their worth in a search.

    python -m studies bench live --cells bert-mini@topologies/paced_three_racks.yaml -- \\
        --space studies.by_hand.older_space:SPACE

Halving is the present version, for any number of replicas. The earlier version sent whole buckets for the replicas
beyond a power of two.
"""

from __future__ import annotations

from dataclasses import replace

from search_spaces.bert import SPACE as WITH_ALL
from studies.by_hand.bench_collectives import NEW

SPACE = replace(
    WITH_ALL,
    name="bert-before",
    rules=tuple(
        replace(rule, algorithms=tuple(algorithm for algorithm in rule.algorithms if algorithm not in NEW))
        for rule in WITH_ALL.rules
    ),
)
