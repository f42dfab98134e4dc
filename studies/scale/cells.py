"""The cells of the study: runs the missing cells, each in a process of its own, and reads the results."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError
from autosync.files import inner_folder, write_atomically
from autosync.spec import digest, read_json
from autosync.terminal import say
from autosync.zoo import default_space
from studies.scale.clusters import CLUSTERS
from studies.scale.models import model_of
from studies.scale.searching import VERSION, ScaleRequest, search_cell


@dataclass(frozen=True)
class ScaleOrder:
    """A request to search cells at scale."""

    out: Path
    """The folder of the results and of captured models."""
    models: tuple[str, ...]
    clusters: tuple[str, ...]
    """Names of clusters; every model is searched on every cluster."""
    trials: int
    """Trials of each search."""
    seed: int = 0
    profiles: Path | None = None
    """The folder of GPU profiles for passes; None to estimate passes by flops."""

    @property
    def cells(self) -> Iterator[ScaleOrder]:
        """The orders of single cells, small clusters first."""
        for cluster in sorted(self.clusters, key=lambda name: len(CLUSTERS[name].replica_devices)):
            for model in self.models:
                yield replace(self, models=(model,), clusters=(cluster,))


def run(order: ScaleOrder, say: Callable[[str], None]) -> int:
    """Search the cells without a result; return the number that failed. After an interruption, the same order
    resumes."""
    failed = 0
    for cell in order.cells:
        name = f"{cell.models[0]} on {cell.clusters[0]}"
        request, file = _request_of(cell)
        if file.exists():
            continue
        say(f"{name}: {request.trials} trials")
        arguments = [str(order.out), *cell.models, *cell.clusters, str(order.trials), str(order.seed)]
        command = [sys.executable, "-m", __name__, *arguments, str(order.profiles or "")]
        if subprocess.run(command).returncode:
            failed += 1
            say(f"{name} failed; run the same command to retry.")
    return failed


def results(out: Path) -> list[dict[str, Any]]:
    """Return the results in the folder, by model, then by size of the cluster."""
    files = sorted((out / "cells").glob("*.json"))
    try:
        documents = [read_json(file, f"Result {str(file)!r}") for file in files]
    except OSError as error:
        raise AutosyncError(f"A result in {out / 'cells'} cannot be read: {error.strerror}; remove it.") from None
    places = {name: place for place, name in enumerate(CLUSTERS)}
    return sorted(documents, key=lambda document: (document["model"], places[document["cluster"]]))


def _request_of(cell: ScaleOrder) -> tuple[ScaleRequest, Path]:
    """Return the request of one cell and the file of its result, named by a digest of everything the result depends
    on."""
    (model_name,), (cluster_name,) = cell.models, cell.clusters
    model = model_of(model_name, cell.out / "models", cell.profiles)
    # The replay predicts NCCL as a ring of the same traffic, so offering both would only divide the search.
    space = import_module(f"search_spaces.{default_space(model_name)}").SPACE.without_gpu_algorithms()
    cluster = CLUSTERS[cluster_name]
    key = digest([model.digest, cluster.digest, space.name, cell.trials, cell.seed, VERSION])
    return ScaleRequest(model, cluster, space, cell.trials, cell.seed), cell.out / "cells" / f"{key}.json"


def _run_cell(cell: ScaleOrder) -> None:
    request, file = _request_of(cell)
    inner_folder(cell.out, "cells")
    profile = request.model.device_profile
    about = {
        "model": cell.models[0],
        "cluster": cell.clusters[0],
        "seed": cell.seed,
        "passes": "flops" if profile is None else f"{profile.device}, {profile.precision}",
        "version": VERSION,
    }
    result = search_cell(request, lambda line: say(f"  {line}", err=True))
    write_atomically(file, json.dumps(about | result))


def _main(out: str, model: str, cluster: str, trials: str, seed: str, profiles: str) -> int:
    order = ScaleOrder(Path(out), (model,), (cluster,), int(trials), int(seed), Path(profiles) if profiles else None)
    try:
        _run_cell(order)
    except AutosyncError as error:
        say(str(error), err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
