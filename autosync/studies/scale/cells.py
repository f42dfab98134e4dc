"""The cells of the study: which are asked for, which are done, and each done in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from autosync.engine.zoo import default_space
from autosync.errors import AutosyncError
from autosync.files import inner_folder, write_atomically
from autosync.spec import digest, read_json
from autosync.studies.scale.clusters import CLUSTERS
from autosync.studies.scale.models import model_of
from autosync.studies.scale.searching import VERSION, Asked, searched
from autosync.terminal import say


@dataclass(frozen=True)
class Order:
    """The request: `models` on `clusters`, by name, each searched with `trials`; results go to `out`."""

    out: Path
    models: tuple[str, ...]
    clusters: tuple[str, ...]
    trials: int
    seed: int = 0
    profiles: Path | None = None

    @property
    def cells(self) -> Iterator[Order]:
        """The order cell by cell, small clusters first."""
        for cluster in sorted(self.clusters, key=lambda name: len(CLUSTERS[name].replica_devices)):
            for model in self.models:
                yield replace(self, models=(model,), clusters=(cluster,))


def run(order: Order, say: Callable[[str], None]) -> int:
    """Search the cells that are not done; how many failed. Stopped at any moment, the same order goes on."""
    failed = 0
    for cell in order.cells:
        name = f"{cell.models[0]} on {cell.clusters[0]}"
        asked, file = _asked(cell)
        if file.exists():
            continue
        say(f"{name}: {asked.trials} trials")
        given = [str(order.out), *cell.models, *cell.clusters, str(order.trials), str(order.seed)]
        command = [sys.executable, "-m", __name__, *given, str(order.profiles or "")]
        if subprocess.run(command).returncode:
            failed += 1
            say(f"{name} failed; the same command tries it again.")
    return failed


def results(out: Path) -> list[dict[str, Any]]:
    """The results in the folder, by model, then by size of the cluster."""
    files = sorted((out / "cells").glob("*.json"))
    try:
        found = [read_json(file, f"Result {str(file)!r}") for file in files]
    except OSError as error:
        raise AutosyncError(f"A result in {out / 'cells'} cannot be read: {error.strerror}; remove it.") from None
    places = {name: place for place, name in enumerate(CLUSTERS)}
    return sorted(found, key=lambda each: (each["model"], places[each["cluster"]]))


def _asked(cell: Order) -> tuple[Asked, Path]:
    """The request of one cell, and the file of its result, called by all that this depends on."""
    (model_name,), (cluster_name,) = cell.models, cell.clusters
    model = model_of(model_name, cell.out / "models", cell.profiles)
    # The replay predicts NCCL as a ring of the same traffic, so offering both would only divide the search.
    space = import_module(f"search_spaces.{default_space(model_name)}").SPACE.without_gpu_algorithms()
    cluster = CLUSTERS[cluster_name]
    key = digest([model.digest, cluster.digest, space.name, cell.trials, cell.seed, VERSION])
    return Asked(model, cluster, space, cell.trials, cell.seed), cell.out / "cells" / f"{key}.json"


def _done(cell: Order) -> None:
    asked, file = _asked(cell)
    inner_folder(cell.out, "cells")
    profile = asked.model.device_profile
    about = {
        "model": cell.models[0],
        "cluster": cell.clusters[0],
        "seed": cell.seed,
        "passes": "flops" if profile is None else f"{profile.device}, {profile.precision}",
        "version": VERSION,
    }
    found = searched(asked, lambda line: say(f"  {line}", err=True))
    write_atomically(file, json.dumps(about | found))


def _main(out: str, model: str, cluster: str, trials: str, seed: str, profiles: str) -> int:
    order = Order(Path(out), (model,), (cluster,), int(trials), int(seed), Path(profiles) if profiles else None)
    try:
        _done(order)
    except AutosyncError as error:
        say(str(error), err=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
