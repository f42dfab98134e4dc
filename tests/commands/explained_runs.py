"""Runs on disk as the tuner leaves them, written without a search."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autosync.dataset import RecordStore
from autosync.spec import ClusterSpec, DeviceProfile, ModelSpec, RuntimeRecord, Strategy, TimingProtocol

__all__ = ["MLP", "record", "write_profile", "write_records", "write_run", "write_strategy"]

MLP = [f"{layer}/{part}" for layer in ("dense_0", "dense_1", "logits") for part in ("kernel", "bias")]
"""The variables of the zoo's smallest model."""


def write_strategy(directory: Path, strategy: Strategy) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "strategy.json"
    file.write_text(json.dumps(strategy.to_json() | {"summary": ["for people"]}))
    return file


def write_profile(file: Path, batch_size: int = 8) -> Path:
    """A profile of the zoo's smallest model on another device, whose step takes 100 ms."""
    ready = {name: 0.01 * number for number, name in enumerate(reversed(MLP), 1)}
    device = DeviceProfile("H100", {"driver": "570"}, batch_size, "float32", "2026-11-20", 0.04, 0.06, ready)
    file.write_text(json.dumps(device.to_json()))
    return file


def write_run(directory: Path, model: ModelSpec, cluster: ClusterSpec, data: Path, **result: Any) -> None:
    """Write `run.json`, and `result.json` if fields of it are given; required fields are filled in."""
    directory.mkdir(parents=True, exist_ok=True)
    run = {
        "name": "r",
        "options": {"model": model.name, "data": str(data)},
        "model_digest": model.digest,
        "cluster": cluster.to_json(),
    }
    (directory / "run.json").write_text(json.dumps(run))
    if result:
        needed = {
            "format": "autosync.result/1",
            "model": model.name,
            "model_digest": model.digest,
            "trials": 1,
            "failed_trials": 0,
            "wall_seconds": 1.0,
            "simulator_pairwise_accuracy": None,
            "strategies": [],
        }
        (directory / "result.json").write_text(json.dumps(needed | result))


def record(model: ModelSpec, cluster: ClusterSpec, strategy: Strategy, step_seconds: Sequence[float]) -> RuntimeRecord:
    protocol = TimingProtocol(warmup_steps=0, timed_steps=len(step_seconds))
    return RuntimeRecord(
        model, cluster, strategy, protocol, "ok", "search", "x", "r", 0, 0.0, step_seconds=tuple(step_seconds)
    )


def write_records(directory: Path, *records: RuntimeRecord) -> Path:
    store = RecordStore.create(directory)
    for timing in records:
        store.append(timing)
    return directory
