"""The folder of a collection: its records, and its clusters and models as first measured."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autosync.errors import DatasetError, SpecError
from autosync.files import inner_folder, write_atomically
from autosync.runs.claim import claim_folder
from autosync.spec import ClusterSpec, KeptProfile, ModelSpec, read_json
from autosync.spec.codec import read_required


@dataclass(frozen=True)
class Folder:
    """The files of a collection.

    `records` holds only Parquet files, `clusters` a JSON file for each cluster, `profiles` a JSON file for each model,
    and README.md is the card. A cluster is measured once and all records contain the same figures, so that the cluster
    has one digest. A model's step is profiled once, and paced passes follow that profile, unless the
    collection has the profile of another device.
    """

    path: Path

    @property
    def records(self) -> Path:
        return self.path / "records"

    @property
    def card(self) -> Path:
        return self.path / "README.md"

    @property
    def cluster_name(self) -> str:
        """The name shared by the emulated clusters of this folder, which exist one after the other."""
        return f"collect-{hashlib.sha256(os.fsencode(self.path.resolve())).hexdigest()[:6]}"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder against other commands and create it if missing. Raises `AutosyncError`."""
        with claim_folder(self.path):
            inner_folder(self.path, "records")
            yield

    def read_cluster(self, name: str) -> ClusterSpec | None:
        """Return the cluster as first measured, or None if it was never measured."""
        file = self._cluster_file(name)
        if not file.exists():
            return None
        return ClusterSpec.from_json(read_required(_read(file), "cluster", dict, str(file)))

    def write_cluster(self, name: str, cluster: ClusterSpec, probing: dict[str, Any] | None) -> None:
        """Write the cluster with the report of its probe."""
        _write(self._cluster_file(name), {"cluster": cluster.to_json(), "probe": probing})

    def with_profile(self, model: ModelSpec) -> ModelSpec:
        """Return `model` with the profile kept in this folder; if there is none, keep the profile of `model`."""
        kept = self.kept_profile(model.name)
        if kept is not None and kept.model_digest == model.digest:
            return replace(model, profile=kept.profile)
        if model.profile is not None:
            _write(self._profile_file(model.name), KeptProfile(model.digest, model.profile).to_json())
        return model

    def kept_profile(self, name: str) -> KeptProfile | None:
        """Return the kept profile of the model called `name`; None if there is none. Raises `DatasetError`."""
        file = self._profile_file(name)
        if not file.exists():
            return None
        try:
            return KeptProfile.from_json(_read(file))
        except SpecError as error:
            raise DatasetError(
                f"{file} has no profile: {error} Remove it, and the profile is measured again."
            ) from None

    def _profile_file(self, name: str) -> Path:
        return self.path / "profiles" / f"{name}.json"

    def _cluster_file(self, name: str) -> Path:
        return self.path / "clusters" / f"{name}.json"


def _read(file: Path) -> dict[str, Any]:
    """Return the document in `file`, which must not be a link. Raises `DatasetError`."""
    try:
        return read_json(file, str(file), through_links=False)
    except OSError as error:
        raise DatasetError(
            f"{file} cannot be read: {error.strerror}; remove it, and the collection writes it again."
        ) from None


def _write(file: Path, document: dict[str, Any]) -> None:
    """Replace `file` atomically. Raises `WriteError`."""
    inner_folder(file.parent.parent, file.parent.name)
    write_atomically(file, json.dumps(document) + "\n", afterwards="start the collection again to resume")
