"""The plan of a collection: which models on which emulated clusters, how many strategies, how they are timed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from autosync.errors import AutosyncError
from autosync.spec import ClusterSpec, TimingProtocol, listed, quoted
from autosync.spec.codec import first_repeated
from autosync.stats.cells import CellName
from autosync.words.commands import is_cluster_file
from trials.cluster.checked_yaml import read_checked
from trials.cluster.file import cluster_to_emulate


def _name(value: str) -> str:
    if not value or any(each in value for each in "/@ "):
        raise ValueError(f"a name is not empty and holds no slash, @ or space, but is {quoted(value)}.")
    return value


def _share(value: float) -> float:
    if not 0 <= value < 1:
        raise ValueError(f"a share is at least 0 and below 1, not {value:g}.")
    return value


Share = Annotated[float, AfterValidator(_share)]


class Plan(BaseModel):
    """What to collect. More models, clusters or strategies may be added later: what is on disk still counts."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    name: Annotated[str, AfterValidator(_name)] = Field(description="Records say it in `run`.")
    models: list[Annotated[str, AfterValidator(_name)]] = Field(min_length=1)
    clusters: list[str] = Field(
        min_length=1, description="Stars such as 4x200mbit, or cluster files beside this one, known by their stem."
    )
    seed: int = Field(0, ge=0, description="Same seed, same slots; what mutations start from follows the times.")
    strategies: int = Field(160, ge=1, description="Different strategies a cell, baselines included.")
    random_share: Share = Field(
        0.6, description="Of those that are not baselines; the rest are bred from the best so far, half of them guided."
    )
    repeat_share: Share = Field(0.1, description="Repeats to every new strategy.")
    repeat_distance: int = Field(
        20, ge=1, description="Trials of the cell between a strategy and its repeat, at least."
    )
    breed_after: int = Field(20, ge=1, description="New strategies of the cell before some are bred from the best.")
    block: int = Field(10, ge=1, description="Trials before the next cell has its turn; may be changed at any time.")
    warmup_steps: int = Field(5, ge=0)
    timed_steps: int = Field(20, ge=1)
    trial_time_limit_seconds: float = Field(120.0, gt=0)
    stop_factor: float = Field(4.0, gt=1, description="A trial so much slower than the cell's best ends early.")

    @model_validator(mode="after")
    def _names_are_different(self) -> Plan:
        names = [cluster_name(each) for each in self.clusters]
        for what, given in (("model", self.models), ("cluster", names)):
            twice = first_repeated(given)
            if twice is not None:
                raise ValueError(f"{what}s: each {what} comes once, but {quoted(twice)} comes twice.")
        return self

    @property
    def cells(self) -> list[CellName]:
        """The plan's cells, cluster by cluster, since a cluster is made once for all its cells of a round."""
        return [CellName(model, cluster_name(each)) for each in self.clusters for model in self.models]

    @property
    def protocol(self) -> TimingProtocol:
        return TimingProtocol(
            self.warmup_steps, self.timed_steps, self.trial_time_limit_seconds, stop_factor=self.stop_factor
        )

    def run_of(self, cell: CellName) -> str:
        """What the cell's records hold in `run`."""
        return f"{self.name}/{cell}"


def cluster_name(given: str) -> str:
    """The name of a cluster of the plan: `two_racks` for topologies/two_racks.yaml, 4x200mbit for itself."""
    return Path(given).stem if is_cluster_file(given) else given


def read_plan(file: Path) -> Plan:
    """The plan in `file`. Raises `ClusterError`, naming file, key, rule, and what came."""
    plan = read_checked(file, "Plan", Plan)
    for given in plan.clusters:
        cluster_of(plan, file, cluster_name(given))
    return plan


def cluster_of(plan: Plan, file: Path, name: str) -> ClusterSpec:
    """The cluster called `name` as `plan`, read from `file`, states it. Raises `ClusterError`."""
    given = next(each for each in plan.clusters if cluster_name(each) == name)
    return cluster_to_emulate(str(file.parent / given) if is_cluster_file(given) else given)


def chosen(plan: Plan, models: Sequence[str], clusters: Sequence[str]) -> list[CellName]:
    """The plan's cells of these models and clusters; an empty sequence stands for all. Raises `AutosyncError`."""
    for option, wanted, known in (
        ("--only", models, plan.models),
        ("--cluster", clusters, [cluster_name(each) for each in plan.clusters]),
    ):
        for name in wanted:
            if name not in known:
                raise AutosyncError(f"{option} names what the plan has: {listed(known)}; not {quoted(name)}.")
    return [
        cell
        for cell in plan.cells
        if (not models or cell.model in models) and (not clusters or cell.cluster in clusters)
    ]


def check_models(plan: Plan) -> None:
    """Raise `ModelError` for a model that is not in the zoo. Loads nothing."""
    from autosync.engine.zoo import check_model_name

    for model in plan.models:
        check_model_name(model)
