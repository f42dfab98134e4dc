"""A run on disk: its options, its records, the state of its search, and its result."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError, did_you_mean
from autosync.runs.documents import document_in, result_of, run_document, state_of, strategy_of_run
from autosync.runs.kept_records import KeptRecords, kept_records
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, cut, quote, shorten_list
from autosync.spec.address import Place
from autosync.stats.accuracy import strategy_medians

REVERTED = "reverted: "
"""The beginning of the labels of records that time the winner with one decision reverted, or, next to those, with
none."""


@dataclass(frozen=True)
class Run:
    """A run on disk. A run that has just begun has only `document`."""

    directory: Path

    document: Mapping[str, Any]
    """run.json: the options and the cluster."""

    data: Place | None = None
    """The place from which records were read; None if there is none."""

    records: tuple[RuntimeRecord, ...] = ()
    """All records of this run, in order of their start."""

    result: Mapping[str, Any] | None = None
    """result.json: the verdict."""

    probe: Mapping[str, Any] | None = None
    """probe.json: the measurements of the links."""

    strategy: Strategy | None = None
    """The strategy that the run returned."""

    seconds_gone: float | None = None
    """Seconds that the search has taken so far."""

    kept: KeptRecords = field(default_factory=KeptRecords)
    """Also names a place of records that was not read, because the user has not asked for it."""

    @property
    def name(self) -> str:
        """The name of the run in its records."""
        return str(self.document["name"])

    @property
    def title(self) -> str:
        """The title of the run for people: the name of its directory."""
        return self.directory.resolve().name

    @property
    def options(self) -> Mapping[str, Any]:
        return dict(self.document.get("options", {}))

    @property
    def description(self) -> Mapping[str, Any]:
        """Further options and the size of the space; empty for runs of versions that did not write them."""
        return dict(self.document.get("asked", {}))

    @cached_property
    def cluster(self) -> ClusterSpec:
        return ClusterSpec.from_json(self.document["cluster"])

    @property
    def model_digest(self) -> str:
        return str(self.document["model_digest"])

    @property
    def model(self) -> ModelSpec | None:
        """The model, from the records; None without records."""
        return self.records[-1].model if self.records else None

    @property
    def model_name(self) -> str:
        return self.model.name if self.model else str(self.options.get("model", "?"))

    @cached_property
    def here(self) -> tuple[RuntimeRecord, ...]:
        """Records on the run's cluster; a run that continued with fewer nodes also has others."""
        return tuple(record for record in self.records if record.cluster.digest == self.cluster.digest)

    @cached_property
    def trials(self) -> tuple[RuntimeRecord, ...]:
        """Trials of the search proper, repeated timings included. Lost trials are left out, because they ran again."""
        return tuple(record for record in self.here if record.of_search and record.outcome != "lost")

    @cached_property
    def finals(self) -> tuple[RuntimeRecord, ...]:
        """The completed turns of the finalists; if the finals ran more than once, the turns behind the result."""
        turns = [
            record
            for record in self.here
            if not record.of_search and record.outcome == "ok" and not record.label.startswith(REVERTED)
        ]
        rows = (self.result or {}).get("strategies", ())
        steps = {row["strategy_digest"]: row["steps"] for row in rows if row["remeasured"]}
        if not steps:
            return tuple(turns)
        kept = []
        for record in reversed(turns):
            if steps.get(record.strategy.digest, 0) > 0:
                steps[record.strategy.digest] -= len(record.step_seconds)
                kept.append(record)
        return tuple(reversed(kept))

    @property
    def rounds(self) -> list[list[RuntimeRecord]]:
        """The finals by round, failed turns included. A new round begins when a strategy would occur twice in a
        round.
        """
        finals = self.finals
        if not finals:
            return []
        rounds: list[list[RuntimeRecord]] = [[]]
        for record in self.here:
            is_turn = not record.of_search and not record.label.startswith(REVERTED) and record.outcome != "lost"
            if not is_turn or record.started_at < finals[0].started_at:
                continue
            if any(record.strategy.digest == earlier.strategy.digest for earlier in rounds[-1]):
                rounds.append([])
            rounds[-1].append(record)
        return rounds

    @cached_property
    def median_seconds(self) -> Mapping[str, float]:
        """Median step seconds by strategy's digest, over the medians of the strategy's complete trials in the
        search.
        """
        return strategy_medians(self.trials)

    @property
    def trial_count(self) -> int:
        """The number of trials of the search proper; taken from the result if the records are gone."""
        return len(self.trials) or int((self.result or {}).get("trials", 0))

    @property
    def wall_seconds(self) -> float | None:
        """Seconds that the run has taken (so far); None before its first trial."""
        return (self.result or {}).get("wall_seconds") or self.seconds_gone

    @property
    def verdict(self) -> Mapping[str, Any] | None:
        return self.result.get("verdict") if self.result else None

    @property
    def best_baseline_digest(self) -> str | None:
        """The digest of the compared baseline or, before the finals, of the baseline with the shortest step."""
        if self.verdict:
            return str(self.verdict["baseline"])
        baselines = {trial.strategy.digest for trial in self.trials if trial.purpose == "baseline"}
        return self._fastest(baselines)

    @property
    def winner_digest(self) -> str | None:
        """The digest of the returned strategy or, before the verdict, of the strategy with the shortest step."""
        if self.verdict:
            return str(self.verdict["winner"])
        return self._fastest(self.median_seconds)

    def strategy_with(self, digest: str | None) -> Strategy | None:
        """The timed strategy with this digest; None if there is none."""
        known = (record.strategy for record in reversed(self.records) if record.strategy.digest == digest)
        return next(known, self.strategy if self.strategy and self.strategy.digest == digest else None)

    def find_strategy(self, which: str) -> Strategy:
        """The timed baseline of this name, or the timed strategy whose digest begins with it.

        Raises `AutosyncError`.
        """
        baselines = {record.label: record.strategy for record in self.here if record.purpose == "baseline"}
        if which in baselines:
            return baselines[which]
        timed = {record.strategy.digest: record.strategy for record in self.records}
        digests = [digest for digest in timed if which and digest.startswith(which)]
        if len(digests) == 1:
            return timed[digests[0]]
        raise AutosyncError(
            f"A strategy of a run is named by its baseline or by the start of its digest, but {quote(which)} names "
            f"{len(digests) or 'none'} in {cut(self.title)}; the baselines are {shorten_list(baselines)}, "
            f"the digests {shorten_list([digest[:8] for digest in digests or timed])}.{did_you_mean(which, baselines)}"
        )

    def _fastest(self, digests: Container[str]) -> str | None:
        """The digest with the least median over all complete trials, because a single trial may have been lucky."""
        medians = {digest: seconds for digest, seconds in self.median_seconds.items() if digest in digests}
        return min(medians, key=medians.__getitem__, default=None)


def is_run(directory: Path) -> bool:
    return (directory / "run.json").is_file()


def read_run(directory: Path, data: Place | None = None) -> Run:
    """Read the run in `directory` with its records, from `data` or, unasked, from `kept_records`. Raises
    `AutosyncError`.
    """
    if not is_run(directory):
        raise AutosyncError(f"A run is a directory with a run.json, but {directory} has none; name a run's directory.")
    document = run_document(directory)
    kept = KeptRecords(data) if data is not None else kept_records(directory, document)
    data = kept.place
    records: tuple[RuntimeRecord, ...] = ()
    if data is not None:
        from autosync.dataset import RecordStore  # pyarrow

        records = tuple(RecordStore(data).read(run=str(document["name"])))
    state = state_of(directory)
    return Run(
        directory=directory,
        document=document,
        data=data,
        records=records,
        result=result_of(directory),
        probe=document_in(directory / "probe.json"),
        strategy=strategy_of_run(directory),
        seconds_gone=None if state is None else float(state.get("seconds_gone", 0.0)),
        kept=kept,
    )
