"""The result of `find_strategy`: the strategy, the verdict, tables and figures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, final

from autosync.cost import StepBound
from autosync.errors import TrialError
from autosync.runs import COLUMNS, Run, contenders_of, read_run, trial_rows, verdict_in_words
from autosync.runs.documents import run_document
from autosync.search.verdict.judging import Verdict
from autosync.spec import RuntimeRecord, Strategy
from autosync.spec.address import place_of
from autosync.tune.directory import RunDirectory
from autosync.tune.result import verdict_of
from autosync.words.quantities import count_of, milliseconds

if TYPE_CHECKING:
    from ray.tune import ResultGrid

    from autosync.dataset.frame import DataFrame
    from autosync.report.figures import Figure

MOST_ROWS = 12
"""The maximum number of strategies that a notebook shows."""


@final
@dataclass(frozen=True, repr=False)
class Result:
    """The result of a search. A notebook shows its verdict and its fastest strategies.

    A search that was interrupted, or whose finals could not run, has no `verdict`; its `strategy` is the fastest so
    far, and `str(result)` says so.
    """

    run: Run
    """The folder of the search, as read at its end."""

    @classmethod
    def load(cls, folder: str | os.PathLike[str], data: str | None = None) -> Result:
        """The result of an earlier search in `folder`.

        `data` is the place of its records, as for `autosync runs show --data`, if they are not where the search left
        them. Raises `AutosyncError`.
        """
        return cls(read_run(Path(folder), None if data is None else place_of(data)))

    @cached_property
    def verdict(self) -> Verdict | None:
        """The best candidate compared with the best baseline; None without finals."""
        return None if self.run.verdict is None else verdict_of(self.run.verdict, self.run.strategy_with)

    @property
    def bound(self) -> StepBound | None:
        """The lower bound of a step with any exact strategy; None without finals, or if the best baseline has it."""
        bound = (self.run.verdict or {}).get("bound")
        return None if bound is None else StepBound(bound["seconds"], bound["reason"])

    @property
    def folder(self) -> Path:
        """The folder of the search, with `strategy.json`, `result.json`, `trials.csv` and `report.html`."""
        return self.run.directory

    @property
    def strategy(self) -> Strategy:
        """The strategy to train with. Raises `TrialError` if no trial succeeded."""
        strategy = self.run.strategy_with(self.run.winner_digest)
        if strategy is None:
            reasons = [record.reason for record in self.records if record.reason]
            because = f" The last reason: {reasons[-1]}" if reasons else ""
            raise TrialError(f"No trial of {self.folder} succeeded, so there is no strategy.{because}")
        return strategy

    @property
    def records(self) -> tuple[RuntimeRecord, ...]:
        """The records of all trials, finals included, in order of their start."""
        return self.run.records

    @property
    def trials(self) -> DataFrame:
        """A row for each trial, finals included, with the columns of `trials.csv`.

        Raises `AutosyncError` without pandas.
        """
        from autosync.dataset.frame import frame_of

        rows = trial_rows(self.records)
        return frame_of(rows, list(rows[0] if rows else COLUMNS))

    def tune_results(self) -> ResultGrid:
        """Ray Tune's results, in the folder `tune` of the search; after `resume`, those of the last process.

        They have single trials only, so their `get_best_result` may have another strategy than this result: the finals
        time the best strategies again, in turns, without Tune. Raises `AutosyncError` if the folder was cut.
        """
        from autosync.tune.ray_tune import tune_results

        return tune_results(RunDirectory(self.folder, run_document(self.folder)["name"]))

    def report(self) -> Path:
        """The page of the search, one HTML file. Raises `AutosyncError` if it cannot be written."""
        page = self.folder / "report.html"
        if page.exists():
            return page
        from autosync.report import write_report

        return write_report(self.run)

    def plot_search(self) -> Figure:
        """The step time of every trial, the best so far, and the share of trials faster than the best baseline."""
        return self._figure("search")

    def plot_contenders(self) -> Figure:
        """Median step times of baselines and finalists, with intervals."""
        return self._figure("contenders")

    def plot_rounds(self) -> Figure:
        """Median step times of the finalists in every round of the finals."""
        return self._figure("rounds")

    def plot_predictions(self) -> Figure:
        """Predicted against measured step times."""
        return self._figure("predictions")

    def plot_strategy(self) -> Figure:
        """The servers and buckets of the strategy, and the variables in each."""
        return self._figure("strategy")

    def plot_step(self) -> Figure:
        """The predicted passes and messages of one step."""
        return self._figure("step")

    def plot_importance(self) -> Figure:
        """The share of the variance of step times that each factor explains; a search needs 20 strategies for it."""
        return self._figure("importance")

    def __str__(self) -> str:
        if self.run.verdict is not None:
            return verdict_in_words(self.run.verdict)
        trials = count_of(len(self.run.trials), "trial")
        best = self.run.median_seconds.get(self.run.winner_digest or "")
        if best is None:
            return f"The search ended after {trials}, and no trial succeeded."
        return (
            f"The search ended after {trials} and without finals. The fastest strategy so far takes "
            f"{milliseconds(best)} a step."
        )

    def __repr__(self) -> str:
        return f"<Result of {self.folder}: {self}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(row.name)}</td>"
            f"<td style='text-align: right'>{milliseconds(row.median_seconds, row.time)}</td></tr>"
            for row in contenders_of(self.run)[:MOST_ROWS]
        )
        return (
            f"<p>{escape(str(self))}</p><table><thead><tr><th>strategy</th><th>median step</th></tr></thead>"
            f"<tbody>{rows}</tbody></table><p>Folder: {escape(str(self.folder))}</p>"
        )

    def _figure(self, name: str) -> Figure:
        from autosync.report.figures import figure_of_run

        return figure_of_run(self.run, name)
