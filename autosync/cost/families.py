"""Records by family: those of one model on one cluster, which can be costed and ranked together."""

from __future__ import annotations

from collections.abc import Sequence

from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord

__all__ = ["positions_by_family"]


def positions_by_family(records: Sequence[RuntimeRecord]) -> dict[tuple[ModelSpec, ClusterSpec], list[int]]:
    """Positions in `records` of each model and cluster, in order of first appearance."""
    families: dict[tuple[ModelSpec, ClusterSpec], list[int]] = {}
    # Hashing a model takes long, and most records share theirs: look it up by identity first.
    known: dict[tuple[int, int], list[int]] = {}
    for position, record in enumerate(records):
        identity = (id(record.model), id(record.cluster))
        if identity not in known:
            known[identity] = families.setdefault((record.model, record.cluster), [])
        known[identity].append(position)
    return families
