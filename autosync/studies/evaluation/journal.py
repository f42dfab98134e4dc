"""An evaluation's jobs carried out: each result is a line of JSON on disk before the next begins, so none is twice."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from autosync.errors import SpecError
from autosync.files import appended_to, made_folder, read_whole
from autosync.spec import parse_json
from autosync.studies.evaluation.cells import EvaluationError, MeasuredCell
from autosync.studies.evaluation.findings import EvaluationFindings
from autosync.studies.evaluation.jobs import Clock, Fits, Job, Result, carried_out, jobs_of
from autosync.studies.evaluation.simulators import Builder
from autosync.studies.evaluation.tasks import EvaluationSettings


@final
class Journal:
    """The results in `path`, by their key. A last line that a crash has cut off is dropped, and written again."""

    def __init__(self, path: Path) -> None:
        """Read the results. Raises `EvaluationError` when `path` is unreadable, unwritable or holds anything else."""
        self.path = path
        self.results: dict[str, Result] = {}
        try:
            made_folder(path.parent)
            content = read_whole(path) if path.exists() else b""
            whole = content[: content.rfind(b"\n") + 1]
            if whole != content:
                with appended_to(path) as file:
                    file.truncate(len(whole))
        except OSError as error:
            raise EvaluationError(f"{path} must be a file that can be written, but: {error.strerror}.") from None
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                result = Result.from_json(parse_json(line, "A result"))
            except SpecError as error:
                raise EvaluationError(
                    f"{path} holds a result a line, but line {number} is none ({error}); move the file away."
                ) from None
            self.results[result.key] = result

    def append(self, result: Result) -> None:
        """Write `result`; it is on disk when this returns."""
        with appended_to(self.path) as file:
            file.write((json.dumps(result.to_json()) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())
        self.results[result.key] = result


@final
@dataclass(frozen=True)
class Evaluation:
    """Simulators of `builders`, judged on `cells`; finished jobs are in `journal`."""

    cells: Sequence[MeasuredCell]
    settings: EvaluationSettings
    builders: Mapping[str, Builder]
    journal: Journal

    def run(
        self, experiments: Sequence[str], simulators: Sequence[str], clock: Clock, say: Callable[[str], None]
    ) -> int:
        """Carry out the jobs of these experiments and simulators that have no result yet; how many those were."""
        jobs, fits = self._missing(experiments, simulators), Fits()
        for number, job in enumerate(jobs, 1):
            result = carried_out(job, self.builders[job.simulator], clock, self.settings, fits)
            self.journal.append(result)
            say(f"{number} of {len(jobs)}: {job.label}; fitted {result.fit_records} in {result.fit_seconds:.1f} s")
        return len(jobs)

    def findings(self) -> EvaluationFindings:
        """Findings of all experiments and simulators that have a result."""
        return EvaluationFindings(self.cells, self.settings, self.builders, self.journal.results)

    def _missing(self, experiments: Sequence[str], simulators: Sequence[str]) -> list[Job]:
        builders = {name: builder for name, builder in self.builders.items() if name in simulators}
        jobs = [job for name in experiments for job in jobs_of(name, self.cells, self.settings, builders)]
        by_key = {job.key: job for job in reversed(jobs)}
        wanted = [job for job in jobs if by_key[job.key] is job]
        return [job for job in wanted if job.key not in self.journal.results]
