"""The directory of one run: options, state of the search and result as JSON, and trials as CSV."""

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
from autosync.files import check_without_links, writable_folder, write_atomically
from autosync.runs.claim import claimed
from autosync.runs.documents import document_in, run_document, state_of
from autosync.space import SearchSpace
from autosync.spec import ClusterSpec, Strategy, quoted
from autosync.spec.codec import every, required
from autosync.tune.options import OptionsError, TuneOptions, flag
from autosync.tune.ran_on import is_inside, ran_on

GO_ON = "add --resume to go on"


@dataclass(frozen=True)
class RunDirectory:
    """Files of one run. Each file is replaced atomically, so a kill leaves the old or the new.

    `name` tells its records from those of all other runs, also of one whose directory was called the same.
    """

    path: Path
    name: str

    @classmethod
    def open(cls, options: TuneOptions) -> RunDirectory:
        """A new directory, or with `resume` the one of a run with the same options. Raises `OptionsError`."""
        fresh = cls(options.out, f"{options.out.resolve().name}-{uuid.uuid4().hex[:6]}")
        known = fresh._file("run.json").exists()
        if options.resume and not known:
            raise OptionsError(f"--resume needs a run to go on from, but {options.out} holds none; leave it out.")
        if known and not options.resume:
            raise OptionsError(f"--out {options.out} holds a run already; add --resume to go on, or name another.")
        if options.resume:
            begun = run_document(options.out)
            _check_same(begun.get("options", {}), options)
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
        return self._file("strategy.json")

    @property
    def result_file(self) -> Path:
        return self._file("result.json")

    @property
    def tune_directory(self) -> Path:
        """The folder in which Ray Tune keeps its own results."""
        return self.path.resolve() / "tune"

    def write_run(
        self, options: TuneOptions, model_digest: str, cluster: ClusterSpec, asked: dict[str, Any] | None = None
    ) -> None:
        """Write `run.json`. `asked` is for the report: what `options` do not tell, such as the size of the space."""
        self._write(
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
        self._write("probe.json", report)

    def read_run(self) -> tuple[str, ClusterSpec]:
        """The digest of the model, and the cluster, of the run so far."""
        document = run_document(self.path)
        return str(document["model_digest"]), ClusterSpec.from_json(document["cluster"])

    def write_state(self, state: dict[str, Any], seconds_gone: float) -> None:
        """Write where the searcher stands, and how long the run has taken so far."""
        self._write("search.json", {"searcher": state, "seconds_gone": seconds_gone})

    def read_state(self) -> tuple[dict[str, Any] | None, float]:
        """The searcher's state, None before its first request, and the seconds that earlier processes took."""
        document = state_of(self.path)
        if document is None:
            return None, 0.0
        what = str(self._file("search.json"))
        return required(document, "searcher", dict, what), required(document, "seconds_gone", float, what)

    def write_earlier(self, record_ids: list[str]) -> None:
        """Write which records of other runs the simulator learns from."""
        self._write("earlier.json", {"record_ids": record_ids})

    def read_earlier(self) -> list[str] | None:
        """The ids that `write_earlier` wrote; None when it has not."""
        file = self._file("earlier.json")
        document = document_in(file)
        return None if document is None else list(every(document, "record_ids", str, str(file)))

    def write_strategy(self, strategy: Strategy, summary: list[str]) -> None:
        """Write `strategy.json`, one line a variable so that a person can read it; `summary` is for that person."""
        document = strategy.to_json()
        lines = ["{", f'  "format": {json.dumps(document["format"])},']
        lines += ['  "summary": [', ",\n".join(f"    {json.dumps(each)}" for each in summary), "  ],"]
        lines += [f'  "replicas": {json.dumps(document["replicas"])},', '  "variables": [']
        lines += [",\n".join(f"    {json.dumps(each)}" for each in document["variables"]), "  ]", "}"]
        self._replace("strategy.json", "\n".join(lines) + "\n")

    def write_result(self, result: dict[str, Any]) -> None:
        self._replace("result.json", json.dumps(result, indent=2) + "\n")

    def write_trials(self, rows: str) -> None:
        """Write `trials.csv`, a line for each trial."""
        self._replace("trials.csv", rows)

    def _file(self, name: str) -> Path:
        return self.path / name

    def _write(self, name: str, document: dict[str, Any]) -> None:
        self._replace(name, json.dumps(document))

    def _replace(self, name: str, text: str) -> None:
        """Replace the file `name`. Raises `WriteError`, as on a full disk."""
        write_atomically(self._file(name), text, afterwards=GO_ON)


def claimed_run(out: Path, *, is_default: bool, resume: bool) -> AbstractContextManager[Path]:
    """The folder of a search or a race, which no other command can have meanwhile; see `claimed`.

    On the head of an emulated cluster the command outside has claimed the folder already.
    """
    return nullcontext(out) if is_inside() else claimed(out, is_default=is_default, resume=resume)


def _check_same(before: dict[str, Any], options: TuneOptions) -> None:
    for name, value in options.identity().items():
        if before.get(name) != value:
            raise OptionsError(
                f"--resume goes on with the same options, but {flag(name)} was {quoted(before.get(name))} "
                f"and now is {quoted(value)}."
            )


def asked(options: TuneOptions, space: SearchSpace, arguments: Sequence[str]) -> dict[str, Any]:
    """The command that began this process of the run, its budget and protocol, what ranks, and the space's size."""
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
