"""The space of `bert` without the all-reduces that are fitted to a topology: what they are worth to a search.

    autosync bench live --cells bert-mini@topologies/paced_three_racks.yaml -- --space tests.by_hand.older_space:SPACE

Halving is as it is today, for any number of replicas; before, it sent whole buckets for those beyond a power of two.
"""

from __future__ import annotations

from dataclasses import replace

from search_spaces.bert import SPACE as WITH_ALL
from tests.by_hand.bench_collectives import NEW

SPACE = replace(
    WITH_ALL,
    name="bert-before",
    rules=tuple(
        replace(rule, algorithms=tuple(each for each in rule.algorithms if each not in NEW)) for rule in WITH_ALL.rules
    ),
)
