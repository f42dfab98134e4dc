"""The directory of one run: its options, the state of its search and its result as JSON, and its trials as CSV."""

from __future__ import annotations

import json
import shlex
import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.errors import WriteError
from autosync.files import check_without_links, writable_folder
from autosync.runs.claim import claim_folder
from autosync.runs.documents import document_in, run_document, state_of
from autosync.runs.run_folder import RunFolder
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, Strategy
from autosync.spec.codec import read_list, read_required
from autosync.tune.options import OptionsError, TuneOptions, flag
from autosync.tune.ran_on import is_inside, ran_on


@dataclass(frozen=True)
class RunDirectory(RunFolder):
    """The folder of a search. `name` distinguishes its records from those of other runs, even of runs in equally named
    folders.
    """

    name: str

    refusal = OptionsError

    @classmethod
    def open(cls, options: TuneOptions) -> RunDirectory:
        """A new directory, or with `resume` that of a run with the same options. Raises `OptionsError`."""
        fresh = cls(options.out, f"{options.out.resolve().name}-{uuid.uuid4().hex[:6]}")
        fresh.check_begun(options.resume)
        if options.resume:
            begun = run_document(options.out)
            fresh.check_same(begun.get("options", {}), options.identity(), flag)
            check_without_links(fresh.tune_directory)
            return cls(options.out, begun["name"])
        try:
            writable_folder(options.out)
        except WriteError as error:
            raise OptionsError(f"--out {error}") from None
        check_without_links(fresh.tune_directory)
        return fresh

    @property
    def strategy_file(self) -> Path:
        return self.file("strategy.json")

    @property
    def result_file(self) -> Path:
        return self.file("result.json")

    @property
    def tune_directory(self) -> Path:
        """The folder in which Ray Tune keeps its own results."""
        return self.path.resolve() / "tune"

    def write_run(
        self, options: TuneOptions, model_digest: str, cluster: ClusterSpec, asked: dict[str, Any] | None = None
    ) -> None:
        """Write `run.json`. `asked` adds details for the report that `options` lack, such as the size of the space."""
        self.write(
            "run.json",
            {
                "name": self.name,
                "options": options.identity(),
                "model_digest": model_digest,
                "cluster": cluster.to_json(),
                "asked": asked or {},
            },
        )

    def write_probe(self, report: dict[str, Any]) -> None:
        """Write the probes of links and hosts, each with its sizes and seconds."""
        self.write("probe.json", report)

    def read_run(self) -> tuple[str, ClusterSpec]:
        """The model's digest and the cluster of the run so far."""
        document = run_document(self.path)
        return str(document["model_digest"]), ClusterSpec.from_json(document["cluster"])

    def write_state(self, state: dict[str, Any], seconds_gone: float) -> None:
        """Write the searcher's state, and the seconds that the run has taken so far."""
        self.write("search.json", {"searcher": state, "seconds_gone": seconds_gone})

    def read_state(self) -> tuple[dict[str, Any] | None, float]:
        """The searcher's state, None before its first request, and the seconds that earlier processes took."""
        document = state_of(self.path)
        if document is None:
            return None, 0.0
        what = str(self.file("search.json"))
        return read_required(document, "searcher", dict, what), read_required(document, "seconds_gone", float, what)

    def write_earlier(self, record_ids: list[str]) -> None:
        """Write the ids of other runs' records from which the simulator learns."""
        self.write("earlier.json", {"record_ids": record_ids})

    def read_earlier(self) -> list[str] | None:
        """The ids that `write_earlier` wrote; None if there is no such file."""
        file = self.file("earlier.json")
        document = document_in(file)
        return None if document is None else list(read_list(document, "record_ids", str, str(file)))

    def write_strategy(self, strategy: Strategy, summary: list[str]) -> None:
        """Write `strategy.json` with one line per variable and a `summary`, so that a person can read the file."""
        document = strategy.to_json()
        lines = ["{", f'  "format": {json.dumps(document["format"])},']
        lines += ['  "summary": [', ",\n".join(f"    {json.dumps(line)}" for line in summary), "  ],"]
        lines += [f'  "replicas": {json.dumps(document["replicas"])},', '  "variables": [']
        lines += [",\n".join(f"    {json.dumps(line)}" for line in document["variables"])]
        more = [f'  "{name}": {json.dumps(document[name])}' for name in ("discipline", "ddp") if name in document]
        lines += [",\n".join(["  ]", *more]), "}"]
        self.replace("strategy.json", "\n".join(lines) + "\n")

    def write_result(self, result: dict[str, Any]) -> None:
        self.replace("result.json", json.dumps(result, indent=2) + "\n")

    def write_trials(self, rows: str) -> None:
        """Write `trials.csv`, a line for each trial."""
        self.replace("trials.csv", rows)


def claim_run(out: Path, *, is_default: bool, resume: bool) -> AbstractContextManager[Path]:
    """Claim the folder of a search or a race, so that no other command can use it meanwhile; see `claim_folder`.

    On the head of an emulated cluster, the command outside has already claimed the folder.
    """
    return nullcontext(out) if is_inside() else claim_folder(out, is_default=is_default, resume=resume)


def run_description(options: TuneOptions, space: SearchSpace, arguments: Sequence[str]) -> dict[str, Any]:
    """Details of a run for `run.json`: its command, budget, timing, simulator, cluster options and space."""
    return {
        "command": shlex.join(["autosync", "tune", *arguments]),
        "trials": options.trials,
        "time_budget_seconds": options.time_budget_seconds,
        "rounds": options.rounds,
        "counterfactuals": options.counterfactuals,
        "trial_time_limit_seconds": options.trial_time_limit_seconds,
        "stop_factor": options.stop_factor,
        "simulator": options.simulator,
        "ran_on": ran_on(options).to_json(),
        "space": {
            "name": space.name,
            "log10_size": space.log10_size,
            "decided_variables": space.decided_variables,
            "effective_dimension": space.effective_dimension,
        },
    }
