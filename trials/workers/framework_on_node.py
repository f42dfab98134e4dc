"""Finds the framework of a user's own model on a node of the cluster, with that node's packages."""

from __future__ import annotations

from collections.abc import Sequence

import ray
from ray.exceptions import RayTaskError

from autosync.errors import ModelError
from trials.capture_in_subprocess import try_in_subprocess
from trials.workers.import_places import ImportPlace, folder_of_texts, import_from


def framework_on_node(model: str, seconds: float, import_places: Sequence[ImportPlace]) -> str:
    """The framework of the user's `model`, which a node tries within `seconds` of its start. Raises `ModelError`."""
    task = ray.remote(num_cpus=0, max_retries=0)(_framework)
    try:
        return ray.get(task.remote(model, seconds, tuple(import_places)))
    except RayTaskError as error:
        if isinstance(error.cause, ModelError):
            raise error.cause from None
        raise


def _framework(model: str, seconds: float, import_places: Sequence[ImportPlace]) -> str:
    import_from(import_places)
    with folder_of_texts(import_places) as folder:
        return try_in_subprocess(model, seconds, framework=None, folder=folder)
