"""Runs an evaluation's jobs and writes each result as a line of JSON before the next job, so no job runs twice."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from autosync.errors import SpecError
from autosync.files import make_folder, open_to_append, read_whole
from autosync.pretraining.cells import EvaluationError, MeasuredCell
from autosync.spec import parse_json
from studies.evaluation.findings import EvaluationFindings
from studies.evaluation.jobs import Clock, EvaluationJob, EvaluationResult, Fits, jobs_of, run_job
from studies.evaluation.simulators import Builder
from studies.evaluation.tasks import EvaluationSettings


@final
class Journal:
    """The results in `path`, by their key. If a crash has truncated the last line, the line is dropped and rerun."""

    def __init__(self, path: Path) -> None:
        """Read the results. Raises `EvaluationError` if `path` is unreadable, unwritable or has a line without
        result."""
        self.path = path
        self.results: dict[str, EvaluationResult] = {}
        try:
            make_folder(path.parent)
            content = read_whole(path) if path.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            if whole != content:
                with open_to_append(path) as file:
                    file.truncate(len(whole))
        except OSError as error:
            raise EvaluationError(f"{path} must be a writable file, but: {error.strerror}.") from None
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                result = EvaluationResult.from_json(parse_json(line, "A result"))
            except SpecError as error:
                raise EvaluationError(
                    f"{path} must hold one result per line, but line {number} is no result ({error}); move the file "
                    "away."
                ) from None
            self.results[result.key] = result

    def append(self, result: EvaluationResult) -> None:
        """Write `result` to disk, with a sync before the return."""
        with open_to_append(self.path) as file:
            file.write((json.dumps(result.to_json()) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        self.results[result.key] = result


@final
@dataclass(frozen=True)
class SimulatorEvaluation:
    """Evaluates the simulators of `builders` on `cells`; finished jobs are in `journal`."""

    cells: Sequence[MeasuredCell]
    settings: EvaluationSettings
    builders: Mapping[str, Builder]
    journal: Journal

    def run(
        self, experiments: Sequence[str], simulators: Sequence[str], clock: Clock, say: Callable[[str], None]
    ) -> int:
        """Run the jobs of these experiments and simulators that have no result yet; return the number of jobs run."""
        jobs, fits = self._missing(experiments, simulators), Fits()
        for number, job in enumerate(jobs, 1):
            result = run_job(job, self.builders[job.simulator], clock, self.settings, fits)
            self.journal.append(result)
            say(f"{number} of {len(jobs)}: {job.label}; fitted {result.fit_records} in {result.fit_seconds:.1f} s")
        return len(jobs)

    def findings(self) -> EvaluationFindings:
        """Return the findings of all experiments and simulators with results."""
        return EvaluationFindings(self.cells, self.settings, self.builders, self.journal.results)

    def _missing(self, experiments: Sequence[str], simulators: Sequence[str]) -> list[EvaluationJob]:
        builders = {name: builder for name, builder in self.builders.items() if name in simulators}
        jobs = [job for name in experiments for job in jobs_of(name, self.cells, self.settings, builders)]
        by_key = {job.key: job for job in reversed(jobs)}
        wanted = [job for job in jobs if by_key[job.key] is job]
        return [job for job in wanted if job.key not in self.journal.results]
