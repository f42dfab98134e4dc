"""Example records for the tests of the dataset."""

from __future__ import annotations

from dataclasses import replace

from autosync.baselines import BASELINES
from autosync.spec import RuntimeRecord, TimingProtocol
from tests.cases import mlp_model, star_cluster

__all__ = ["example_record", "failed_record"]


def example_record(index: int = 0, run: str = "example") -> RuntimeRecord:
    """The `index`-th of a series of different records, started a second apart."""
    model, cluster = mlp_model(), star_cluster(2)
    label = list(BASELINES)[index % len(BASELINES)]
    return RuntimeRecord(
        model=model,
        cluster=cluster,
        strategy=BASELINES[label](model, cluster),
        protocol=TimingProtocol(warmup_steps=2, timed_steps=3),
        outcome="ok",
        purpose="baseline",
        label=label,
        run=run,
        seed=index,
        started_at=1_700_000_000.0 + index,
        setup_seconds=0.5,
        total_seconds=1.25,
        step_seconds=(0.125, 0.1, 0.15 + index / 1024),
        final_loss=0.75,
        predicted_seconds=0.11,
        host="example",
        versions={"tensorflow": "2.20.0", "python": "3.11"},
    )


def failed_record(index: int = 0) -> RuntimeRecord:
    """A record of a trial that diverged: no steps, a loss that is not a number."""
    return replace(
        example_record(index),
        outcome="failed",
        reason="the loss is nan",
        step_seconds=(),
        final_loss=float("nan"),
        predicted_seconds=None,
    )
