"""The folder of a collection: its records, and its clusters and models as they were measured when first met."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autosync.errors import DatasetError
from autosync.files import inner_folder, write_atomically
from autosync.runs.claim import claimed
from autosync.spec import ClusterSpec, ModelProfile, ModelSpec, read_json
from autosync.spec.codec import required


@dataclass(frozen=True)
class Folder:
    """`records` holds Parquet files and nothing else; `clusters` a JSON file for each cluster, `profiles` one for each
    model; README.md the card.

    A cluster is measured once and all cells' records name the same figures, so that it has one digest; a model's step
    is profiled once.
    """

    path: Path

    @property
    def records(self) -> Path:
        return self.path / "records"

    @property
    def card(self) -> Path:
        return self.path / "README.md"

    @property
    def emulated_name(self) -> str:
        """The name of the emulated clusters that are made for this folder, one after the other."""
        return f"collect-{hashlib.sha256(os.fsencode(self.path.resolve())).hexdigest()[:6]}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other commands out of the folder, which is made if missing. Raises `AutosyncError`."""
        with claimed(self.path):
            inner_folder(self.path, "records")
            yield

    def read_cluster(self, name: str) -> ClusterSpec | None:
        """The cluster as it was measured, or None when it was not met before."""
        file = self._cluster_file(name)
        if not file.exists():
            return None
        return ClusterSpec.from_json(required(_read(file), "cluster", dict, str(file)))

    def write_cluster(self, name: str, cluster: ClusterSpec, probing: dict[str, Any] | None) -> None:
        """Keep the cluster with the report of its probe."""
        _write(self._cluster_file(name), {"cluster": cluster.to_json(), "probe": probing})

    def profiled(self, model: ModelSpec) -> ModelSpec:
        """`model` with the profile that is kept here; without one, its own is kept."""
        file = self.path / "profiles" / f"{model.name}.json"
        if file.exists():
            kept = _read(file)
            if required(kept, "model_digest", str, str(file)) == model.digest:
                profile = ModelProfile.from_json(required(kept, "profile", dict, str(file)))
                return replace(model, profile=profile)
        if model.profile is not None:
            _write(file, {"model_digest": model.digest, "profile": model.profile.to_json()})
        return model

    def _cluster_file(self, name: str) -> Path:
        return self.path / "clusters" / f"{name}.json"


def _read(file: Path) -> dict[str, Any]:
    """The document in `file`, which is no link. Raises `DatasetError`."""
    try:
        return read_json(file, str(file), through_links=False)
    except OSError as error:
        raise DatasetError(f"{file} cannot be read: {error.strerror}; remove it to have it made again.") from None


def _write(file: Path, document: dict[str, Any]) -> None:
    """Replace `file` atomically. Raises `WriteError`."""
    inner_folder(file.parent.parent, file.parent.name)
    write_atomically(file, json.dumps(document) + "\n", afterwards="start the collection again to go on")
