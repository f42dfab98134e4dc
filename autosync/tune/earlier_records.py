"""Records of earlier runs, read by Ray Data, that a search's simulator learns from beside its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autosync.cost import weight_of
from autosync.dataset import read_rows, records_with_ids
from autosync.spec import RuntimeRecord
from autosync.stats.occasions import heaviest
from autosync.tune.job import Job

__all__ = ["earlier_records"]

MOST = 96
"""The most records that are learned from: each takes its part of every fit."""

COLUMNS = ("record_id", "run", "model_digest", "cluster_digest", "outcome", "median_seconds", "started_at")


def earlier_records(job: Job, go_on: bool) -> list[RuntimeRecord]:
    """Records of other runs of this model or on this cluster in the dataset, the most alike first.

    Which they are is written down: a search that goes on learns from the same, whatever was added meanwhile.
    """
    if not job.store.current_files():
        return []
    chosen = job.directory.read_earlier() if go_on else None
    if chosen is None:
        chosen = _likest(read_rows(job.options.data, COLUMNS), job)
        job.directory.write_earlier(chosen)
    return records_with_ids(job.options.data, chosen) if chosen else []


def _likest(rows: Sequence[Mapping[str, Any]], job: Job) -> list[str]:
    """Ids of the rows that count most; among rows that count the same, some from every part of the time."""
    model, cluster = job.backend.model.digest, job.backend.cluster.digest
    usable = {row["record_id"]: row for row in rows if row["median_seconds"] and row["run"] != job.directory.name}
    ordered = sorted(usable.values(), key=lambda row: (row["started_at"], row["record_id"]))
    weights = np.array([weight_of(row["model_digest"] == model, row["cluster_digest"] == cluster) for row in ordered])
    known = np.flatnonzero(weights)
    return [ordered[known[place]]["record_id"] for place in heaviest(weights[known], MOST)]
