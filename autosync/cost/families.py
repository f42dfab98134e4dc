"""Records by family: those of one model on one cluster, which can be costed and ranked together."""

from __future__ import annotations

from collections.abc import Sequence

from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord

__all__ = ["positions_by_family"]


def positions_by_family(records: Sequence[RuntimeRecord]) -> dict[tuple[ModelSpec, ClusterSpec], list[int]]:
    """Positions in `records` of each model and cluster, in order of first appearance.

    One model may have been profiled several times; its first record's profile then stands for all.
    """
    families: dict[tuple[ModelSpec, ClusterSpec], list[int]] = {}
    first: dict[tuple[str, ClusterSpec], ModelSpec] = {}
    # Hashing a model takes long, and most records share theirs: look it up by identity first.
    known: dict[tuple[int, int], list[int]] = {}
    for position, record in enumerate(records):
        identity = (id(record.model), id(record.cluster))
        if identity not in known:
            model = first.setdefault((record.model.digest, record.cluster), record.model)
            known[identity] = families.setdefault((model, record.cluster), [])
        known[identity].append(position)
    return families
