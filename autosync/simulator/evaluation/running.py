"""Working off an evaluation: job after job, each kept before the next, until all are done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from autosync.simulator.evaluation.cells import Cell
from autosync.simulator.evaluation.findings import Findings
from autosync.simulator.evaluation.jobs import Clock, Fits, Job, carried_out, jobs_of
from autosync.simulator.evaluation.journal import Journal
from autosync.simulator.evaluation.settings import EvaluationSettings
from autosync.simulator.evaluation.simulators import Builder

__all__ = ["Evaluation"]


@final
@dataclass(frozen=True)
class Evaluation:
    """Simulators of `builders`, judged on `cells`; what was done is in `journal`."""

    cells: Sequence[Cell]
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

    def findings(self) -> Findings:
        """Findings of all experiments and simulators that have a result."""
        return Findings(self.cells, self.settings, self.builders, self.journal.results)

    def _missing(self, experiments: Sequence[str], simulators: Sequence[str]) -> list[Job]:
        builders = {name: builder for name, builder in self.builders.items() if name in simulators}
        jobs = [job for each in experiments for job in jobs_of(each, self.cells, self.settings, builders)]
        by_key = {job.key: job for job in reversed(jobs)}
        wanted = [job for job in jobs if by_key[job.key] is job]
        return [job for job in wanted if job.key not in self.journal.results]
