"""The plan of a collection: models, emulated clusters, number of strategies, and the timing protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from autosync.engine.core.registry import DEFAULT, ENGINES, check_engine_installed
from autosync.errors import AutosyncError
from autosync.spec import ClusterSpec, TimingProtocol, quote, shorten_list
from autosync.spec.codec import first_repeated
from autosync.stats.cells import CellName
from autosync.words.commands import is_cluster_file
from trials.cluster.checked_yaml import read_checked
from trials.cluster.file import cluster_to_emulate


def _name(value: str) -> str:
    if not value or any(character in value for character in "/@ "):
        raise ValueError(f"a name must not be empty or contain a slash, @ or space, but is {quote(value)}.")
    return value


def _share(value: float) -> float:
    if not 0 <= value < 1:
        raise ValueError(f"a share must be at least 0 and below 1, but is {value:g}.")
    return value


Share = Annotated[float, AfterValidator(_share)]


class Plan(BaseModel):
    """A plan. You can add models, clusters or strategies later; records on disk still count."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: Annotated[str, AfterValidator(_name)] = Field(description="The first part of a record's `run`.")
    framework: str = Field(DEFAULT, pattern="|".join(f"^{name}$" for name in ENGINES))
    models: list[Annotated[str, AfterValidator(_name)]] = Field(min_length=1)
    clusters: list[str] = Field(
        min_length=1, description="Stars such as 4x200mbit, or cluster files in the plan's folder, named by their stem."
    )
    seed: int = Field(0, ge=0, description="Same seed, same slots; the parents of mutations depend on the times.")
    strategies: int = Field(160, ge=1, description="Different strategies per cell, including baselines.")
    random_share: Share = Field(
        0.6,
        description="Share of the strategies other than baselines that are drawn at random; the rest are bred from the "
        "best so far, half of them guided.",
    )
    repeat_share: Share = Field(0.1, description="Repeats per new strategy.")
    repeat_distance: int = Field(20, ge=1, description="Fewest trials of the cell between a strategy and its repeat.")
    breed_after: int = Field(20, ge=1, description="New strategies of the cell before breeding from the best starts.")
    block: int = Field(10, ge=1, description="Trials per cell and round; you can change it at any time.")
    warmup_steps: int = Field(5, ge=0)
    timed_steps: int = Field(20, ge=1)
    trial_time_limit_seconds: float = Field(120.0, gt=0)
    stop_factor: float = Field(
        4.0, gt=1, description="A trial ends early if slower than the cell's best by this factor."
    )

    @model_validator(mode="after")
    def _names_are_different(self) -> Plan:
        names = [cluster_name(cluster) for cluster in self.clusters]
        for kind, entries in (("model", self.models), ("cluster", names)):
            twice = first_repeated(entries)
            if twice is not None:
                raise ValueError(f"{kind}s: a {kind} may occur once, but {quote(twice)} occurs twice; remove one.")
        return self

    @property
    def cells(self) -> list[CellName]:
        """The plan's cells, cluster by cluster, because a cluster is made once for all its cells of a round."""
        return [CellName(model, cluster_name(cluster)) for cluster in self.clusters for model in self.models]

    @property
    def protocol(self) -> TimingProtocol:
        return TimingProtocol(
            self.warmup_steps, self.timed_steps, self.trial_time_limit_seconds, stop_factor=self.stop_factor
        )

    def run_of(self, cell: CellName) -> str:
        """Return the `run` of the cell's records."""
        return f"{self.name}/{cell}"


def cluster_name(cluster: str) -> str:
    """Return the name of a cluster of the plan: `two_racks` for topologies/two_racks.yaml, 4x200mbit for itself."""
    return Path(cluster).stem if is_cluster_file(cluster) else cluster


def read_plan(file: Path) -> Plan:
    """Read the plan in `file`. Raises `ClusterError` with the file, the key, the rule and the value."""
    plan = read_checked(file, "Plan", Plan)
    for cluster in plan.clusters:
        cluster_of(plan, file, cluster_name(cluster))
    return plan


def cluster_of(plan: Plan, file: Path, name: str) -> ClusterSpec:
    """Return the cluster called `name` of `plan`, which was read from `file`. Raises `ClusterError`."""
    cluster = next(candidate for candidate in plan.clusters if cluster_name(candidate) == name)
    return cluster_to_emulate(str(file.parent / cluster) if is_cluster_file(cluster) else cluster)


def cells_of(plan: Plan, models: Sequence[str], clusters: Sequence[str]) -> list[CellName]:
    """Return the plan's cells of these models and clusters; an empty sequence means all. Raises `AutosyncError`."""
    for option, wanted, known in (
        ("--only", models, plan.models),
        ("--cluster", clusters, [cluster_name(cluster) for cluster in plan.clusters]),
    ):
        for name in wanted:
            if name not in known:
                raise AutosyncError(
                    f"{option} needs names in the plan, which are {shorten_list(known)}, but has {quote(name)}."
                )
    return [
        cell
        for cell in plan.cells
        if (not models or cell.model in models) and (not clusters or cell.cluster in clusters)
    ]


def check_models(plan: Plan) -> None:
    """Raise `ModelError` if a model is not in the zoo of the plan's framework, or that is not installed. Loads no
    model.
    """
    from autosync.zoo import check_model_name

    check_engine_installed(plan.framework)
    for model in plan.models:
        check_model_name(model, plan.framework)
