"""The cells of the proof, chosen before any was run, and the jobs in the order in which they run."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from autosync.errors import BenchError
from autosync.spec import ClusterSpec
from autosync.stats.cells import CellName
from trials.cluster.file import cluster_to_emulate

FRAMEWORK = "pytorch"
DEFAULT = "ddp"
"""The label of DDP's default."""
MODELS = ("bert-mini", "vgg-mini", "ncf-mini", "resnet-mini", "transformer-lm-mini")

SEARCHED_BEFORE = ("paced_two_racks", "paced_three_racks", "paced_uniform", "paced_unlike", "paced_asymmetric")
"""The clusters of at most six nodes on which TensorFlow's searches ran."""

BALANCED = ("paced_slow_two_racks", "paced_slow_uniform", "paced_slow_pairs")
"""Clusters on which links take about as long as passes; `paced_slow_pairs` has eight ranks on four nodes."""

CLUSTERS = (*SEARCHED_BEFORE, *BALANCED)

FIRST = (
    CellName("bert-mini", "paced_slow_two_racks"),
    CellName("resnet-mini", "paced_slow_two_racks"),
    CellName("bert-mini", "paced_two_racks"),
    CellName("vgg-mini", "paced_two_racks"),
    CellName("ncf-mini", "paced_two_racks"),
    CellName("bert-mini", "paced_slow_uniform"),
    CellName("transformer-lm-mini", "paced_slow_uniform"),
    CellName("ncf-mini", "paced_slow_pairs"),
    CellName("resnet-mini", "paced_uniform"),
    CellName("vgg-mini", "paced_unlike"),
    CellName("transformer-lm-mini", "paced_three_racks"),
    CellName("vgg-mini", "paced_asymmetric"),
)
"""The twelve cells that run first, and with every seed: each cluster and, at least twice, each model."""

SEEDS = (0, 1, 2)

TOPOLOGIES = Path(__file__).parents[2] / "topologies"


@dataclass(frozen=True)
class ProofJob:
    """All methods on a cell with one seed, and their finals."""

    cell: CellName
    seed: int

    @property
    def key(self) -> str:
        return f"{self.cell}-{self.seed}"

    @property
    def run(self) -> str:
        """The `run` of the job's records."""
        return f"proof-{self.seed}/{self.cell}"

    def __str__(self) -> str:
        return f"{self.cell}, seed {self.seed}"


def cluster_named(name: str) -> ClusterSpec:
    """Return the cluster as its file in topologies/ states it."""
    return cluster_to_emulate(str(TOPOLOGIES / f"{name}.yaml"))


def all_jobs() -> list[ProofJob]:
    """Return all jobs: the first cells, then all others, then the first cells with further seeds."""
    rest = [CellName(model, cluster) for cluster in CLUSTERS for model in MODELS]
    once = [*FIRST, *(cell for cell in rest if cell not in FIRST)]
    return [ProofJob(cell, SEEDS[0]) for cell in once] + [ProofJob(cell, seed) for seed in SEEDS[1:] for cell in FIRST]


def jobs_like(pattern: str) -> list[ProofJob]:
    """Return the jobs whose cell or key matches `pattern`, such as `bert-mini@*` or `*@*slow_*-0`.

    Raises `BenchError` if no job matches.
    """
    jobs = [job for job in all_jobs() if fnmatch(str(job.cell), pattern) or fnmatch(job.key, pattern)]
    if not jobs:
        raise BenchError(
            f"--cells needs a pattern of cells such as '*@*slow_*' or 'bert-mini@paced_two_racks-0', but none matches "
            f"{pattern!r}; the models are {', '.join(MODELS)} and the clusters {', '.join(CLUSTERS)}."
        )
    return jobs
