"""`Search`: a searcher with ask and tell, for callers that time strategies themselves."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, final

from autosync.engine.core.registry import engine_named
from autosync.errors import TrialError
from autosync.files import write_atomically
from autosync.search.protocol import Proposal, ask_within
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, TimingProtocol
from autosync.spec.codec import read_list, read_required
from autosync.stats.accuracy import strategy_medians
from autosync.tune import campaign
from autosync.tune.candidates import Candidates
from autosync.tune.composing import make_searcher
from autosync.tune.options import OptionsError, TuneOptions
from autosync.tune.python.model_function import ModelFunction
from autosync.zoo import check_model_name, framework_by_name
from trials.capture_in_subprocess import capture_in_subprocess
from trials.cluster.discovery import local_cluster
from trials.cluster.file import read_cluster_file
from trials.workers.import_places import TAKEN

STATE = "The state of a Search"


@final
class Search:
    """Proposes strategies of one model on one cluster, and learns from their step times. It starts no trial.

    Ask for a proposal, train some steps by `proposal.strategy`, and tell the seconds of a step:

        while (proposal := search.ask()) is not None:
            search.tell(proposal, seconds=step_seconds(proposal.strategy))
        search.best

    Equal arguments and equal seconds give equal proposals.
    """

    def __init__(
        self,
        build: Callable[[], Any] | str | ModelSpec,
        cluster: ClusterSpec | str | os.PathLike[str] | None = None,
        *,
        trials: int = 200,
        workers: int | None = None,
        framework: str | None = None,
        space: str | None = None,
        searcher: str = "guided",
        simulator: str = "auto",
        seed: int = 0,
    ) -> None:
        """Capture the model in a process of its own, and bind the search space.

        Args:
            build: A model as for `autosync.find_strategy`, or a `ModelSpec`.
            cluster: A cluster file (.yaml), or a `ClusterSpec`. None for this machine with `workers` workers.
            trials: The number of strategies to propose, baselines included.
            workers: The number of workers on this machine; None for 4.
            framework: The engine that trains, "tensorflow" or "pytorch". None for that of the model; a `ModelSpec`
                needs it.
            space: A search space, as for `autosync tune`.
            searcher: The name of a searcher.
            simulator: The name of the simulator that ranks candidates.
            seed: The seed of the proposals.

        Raises:
            AutosyncError: The model cannot be captured, or an option cannot be used.
        """
        function = ModelFunction(build.name) if isinstance(build, ModelSpec) else ModelFunction.of(build)
        options = TuneOptions.create(
            model=function.name,
            framework=framework,
            trials=trials,
            workers=workers,
            space=space,
            searcher=searcher,
            simulator=simulator,
            seed=seed,
            out=Path(os.curdir),
        )
        if cluster is not None and workers is not None:
            raise OptionsError("--workers and --cluster exclude each other; leave one of them out.")
        self.cluster = _cluster(cluster, workers)
        if isinstance(build, ModelSpec):
            self.model = build
        else:
            framework, self.model = _capture(function, options)
            options = options.model_copy(update={"framework": framework})
        candidates = Candidates.of(options, self.model, self.cluster)
        self._options = options
        self._searcher = make_searcher(options, candidates.space, list(candidates.different.items()))
        self._records: list[RuntimeRecord] = []

    def ask(self) -> Proposal | None:
        """The next strategy to time, with its label and its predicted seconds.

        None once all trials are proposed or the space is exhausted; also while the next proposal depends on answers to
        `pending` proposals.
        """
        left = self._options.trials - len(self._records) - len(self.pending)
        return next(iter(ask_within(self._searcher, left)), None) if left > 0 else None

    def tell(
        self,
        proposal: Proposal,
        seconds: float | Iterable[float] | None = None,
        *,
        failure: str | None = None,
    ) -> RuntimeRecord:
        """Report the seconds of a step by the strategy of `proposal`, or a sentence on its failure.

        `seconds` are those of one step, or of each timed step. Returns the record that the searcher learns from. Raises
        `OptionsError` for both or neither of the two, and `SpecError` for seconds that are not positive.
        """
        if (seconds is None) == (failure is None):
            raise OptionsError("tell needs either seconds or a failure; pass one of them.")
        stated = () if seconds is None else seconds if isinstance(seconds, Iterable) else (seconds,)
        steps = tuple(map(float, stated))
        record = RuntimeRecord(
            model=self.model,
            cluster=self.cluster,
            strategy=proposal.strategy,
            protocol=TimingProtocol(warmup_steps=0, timed_steps=max(1, len(steps))),
            outcome="ok" if failure is None else "failed",
            purpose=proposal.purpose,
            label=proposal.label,
            run="ask-and-tell",
            seed=self._options.seed,
            started_at=time.time(),
            total_seconds=math.fsum(steps),
            step_seconds=steps,
            reason="" if failure is None else failure or "no reason given",
            predicted_seconds=proposal.predicted_seconds,
            sequence=len(self._records),
            framework=self._options.framework_in_records,
        )
        self._searcher.tell(record)
        self._records.append(record)
        return record

    @property
    def pending(self) -> list[Proposal]:
        """The proposals without an answer. After `restore`, time these first."""
        return self._searcher.pending()

    @property
    def records(self) -> tuple[RuntimeRecord, ...]:
        """The records of all answers, in order."""
        return tuple(self._records)

    @property
    def best(self) -> Strategy:
        """The strategy with the least median step time. Raises `TrialError` before the first success."""
        medians = strategy_medians(self._records)
        if not medians:
            raise TrialError("No strategy was timed yet; tell the seconds of at least one proposal.")
        digest = min(medians, key=medians.__getitem__)
        return next(record.strategy for record in self._records if record.strategy.digest == digest)

    def state(self) -> dict[str, Any]:
        """The state as plain JSON values, for `restore`."""
        return {"searcher": self._searcher.state(), "records": [record.to_json() for record in self._records]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state`, of a search with the same arguments. Raises `SpecError`."""
        records = [RuntimeRecord.from_json(document) for document in read_list(state, "records", dict, STATE)]
        campaign.restore(self._searcher, read_required(state, "searcher", dict, STATE))
        self._records = records


def _cluster(cluster: ClusterSpec | str | os.PathLike[str] | None, workers: int | None) -> ClusterSpec:
    if cluster is None:
        return local_cluster() if workers is None else local_cluster(workers)
    return cluster if isinstance(cluster, ClusterSpec) else read_cluster_file(Path(cluster))


def _capture(function: ModelFunction, options: TuneOptions) -> tuple[str, ModelSpec]:
    """The framework and the spec of a model, captured in a process of its own. Raises `ModelError`."""
    check_model_name(function.name, options.framework)
    stated = framework_by_name(function.name, options.framework)
    with tempfile.TemporaryDirectory(prefix="autosync-model-") as temporary:
        folder = function.folder
        if function.text is not None:
            folder = Path(temporary)
            write_atomically(folder / f"{TAKEN}.py", function.text)
        seconds = options.capture_time_limit_seconds
        framework, in_bytes = capture_in_subprocess(function.name, seconds, framework=stated, folder=folder)
    engine = engine_named(framework)
    with engine.quiet_log():
        engine.load()
        return framework, engine.load_captured(in_bytes).spec
