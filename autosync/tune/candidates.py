"""The strategies that a search chooses from: the bound space and the baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from autosync.baselines import DDP_BASELINES, Baseline, baselines_for, different_strategies
from autosync.baselines.ddp import ddp_choices
from autosync.search.pool_space import PoolSpace
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, ModelSpec, Strategy
from autosync.tune.options import OptionsError, TuneOptions
from autosync.tune.refusals import can_overlap, refusals_of, sends_rows_apart
from autosync.zoo import default_space
from search_spaces import load_space


@dataclass(frozen=True)
class Candidates:
    """The strategies of a search for one model on one cluster."""

    space: SearchSpace
    baselines: Mapping[str, Baseline]
    """The baselines that the engine can execute, by name."""
    different: Mapping[str, Strategy]
    """Their strategies; of equal ones, the first."""
    refusals: Sequence[str]
    """A sentence for each baseline that the engine cannot execute."""

    @classmethod
    def of(cls, options: TuneOptions, model: ModelSpec, cluster: ClusterSpec) -> Candidates:
        """The candidates that `options` choose. Raises `OptionsError` and `SpaceError`."""
        framework = options.framework_or_default
        declared = load_space(options.space or default_space(model.name))
        overlaps, rows_apart = can_overlap(framework, model, cluster), sends_rows_apart(framework)
        space = declared.without(*options.without_rules).bind(model, cluster, overlaps, rows_apart)
        known = baselines_for(framework)
        if declared.by_ddp:
            if framework != "pytorch":
                raise OptionsError(
                    f"--space {declared.name} is for PyTorch models, and this is a Keras model; omit --space."
                )
            choices = ddp_choices(model, cluster, compresses=declared.changes_statistics)
            # Searchers are typed for SearchSpace alone; a pool has all members of that class that they use.
            space = cast(SearchSpace, PoolSpace(space, choices, name=space.name))
            known = DDP_BASELINES
        strategies = {name: baseline(model, cluster) for name, baseline in known.items()}
        left_out = refusals_of(framework, strategies, model, cluster)
        known = {name: baseline for name, baseline in known.items() if name not in left_out}
        return cls(space, known, different_strategies(known, model, cluster), [*left_out.values()])
