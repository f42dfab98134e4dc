"""A run on disk: its options, its records, the state of its search, and its result."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from autosync.errors import AutosyncError
from autosync.runs.documents import document_in, result_of, returned_strategy, run_document, state_of
from autosync.runs.kept_records import KeptRecords, kept_records
from autosync.spec import ClusterSpec, ModelSpec, RuntimeRecord, Strategy, cut, listed, quoted
from autosync.spec.address import Place
from autosync.stats.accuracy import strategy_medians

REVERTED = "reverted: "
"""The beginning of labels of records that time the winner with one decision reverted, or with none beside those."""


@dataclass(frozen=True)
class Run:
    """A run as it lies in `directory`. Only `document`, its run.json, need be there: a run may have just begun.

    `data` is the place that was read for records, None if there is none; `kept` also names a place that was not read
    because the user has not asked for it. `records` are all records of this run, in the order in which they started.
    """

    directory: Path
    document: Mapping[str, Any]
    data: Place | None = None
    records: tuple[RuntimeRecord, ...] = ()
    result: Mapping[str, Any] | None = None
    probe: Mapping[str, Any] | None = None
    strategy: Strategy | None = None
    seconds_gone: float | None = None
    kept: KeptRecords = field(default_factory=KeptRecords)

    @property
    def name(self) -> str:
        """The name that the run's records call it."""
        return str(self.document["name"])

    @property
    def title(self) -> str:
        """The title by which a person knows it: its directory."""
        return self.directory.resolve().name

    @property
    def options(self) -> Mapping[str, Any]:
        return dict(self.document.get("options", {}))

    @property
    def asked(self) -> Mapping[str, Any]:
        """The other options, and the space's size; empty for runs from before that was written down."""
        return dict(self.document.get("asked", {}))

    @cached_property
    def cluster(self) -> ClusterSpec:
        return ClusterSpec.from_json(self.document["cluster"])

    @property
    def model_digest(self) -> str:
        return str(self.document["model_digest"])

    @property
    def model(self) -> ModelSpec | None:
        """The model, which records hold; None without any."""
        return self.records[-1].model if self.records else None

    @property
    def model_name(self) -> str:
        return self.model.name if self.model else str(self.options.get("model", "?"))

    @cached_property
    def here(self) -> tuple[RuntimeRecord, ...]:
        """Records on the run's cluster; a run that went on with fewer nodes has others as well."""
        return tuple(record for record in self.records if record.cluster.digest == self.cluster.digest)

    @cached_property
    def trials(self) -> tuple[RuntimeRecord, ...]:
        """Trials of the search proper, timings again included; a trial that was lost ran again, and does not count."""
        return tuple(each for each in self.here if each.of_search and each.outcome != "lost")

    @cached_property
    def finals(self) -> tuple[RuntimeRecord, ...]:
        """The finalists' turns that came to their end; where finals were held again, those that the result is of."""
        turns = [
            each
            for each in self.here
            if not each.of_search and each.outcome == "ok" and not each.label.startswith(REVERTED)
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
        """The finals by round, failed turns included. A round ends before the first strategy that it already has."""
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
        """Median step seconds by strategy's digest: over the medians of its complete trials of the search."""
        return strategy_medians(self.trials)

    @property
    def trial_count(self) -> int:
        """The number of trials of the search proper, from the result where the records are gone."""
        return len(self.trials) or int((self.result or {}).get("trials", 0))

    @property
    def wall_seconds(self) -> float | None:
        """Seconds that the run took, or has taken so far; None before its first trial."""
        return (self.result or {}).get("wall_seconds") or self.seconds_gone

    @property
    def verdict(self) -> Mapping[str, Any] | None:
        return self.result.get("verdict") if self.result else None

    @property
    def best_baseline_digest(self) -> str | None:
        """Digest of the baseline that was compared, or, before the finals, of the one with the shortest step."""
        if self.verdict:
            return str(self.verdict["baseline"])
        baselines = {each.strategy.digest for each in self.trials if each.purpose == "baseline"}
        return self._fastest(baselines)

    @property
    def winner_digest(self) -> str | None:
        """Digest of the strategy that is returned, or, before the verdict, of the one with the shortest step."""
        if self.verdict:
            return str(self.verdict["winner"])
        return self._fastest(self.median_seconds)

    def found(self, digest: str | None) -> Strategy | None:
        """The strategy of that digest, among all that were timed."""
        known = (each.strategy for each in reversed(self.records) if each.strategy.digest == digest)
        return next(known, self.strategy if self.strategy and self.strategy.digest == digest else None)

    def called(self, which: str) -> Strategy:
        """The baseline of that name, or the strategy whose digest begins so, of those that were timed.

        Raises `AutosyncError`.
        """
        baselines = {each.label: each.strategy for each in self.here if each.purpose == "baseline"}
        if which in baselines:
            return baselines[which]
        timed = {each.strategy.digest: each.strategy for each in self.records}
        found = [digest for digest in timed if which and digest.startswith(which)]
        if len(found) == 1:
            return timed[found[0]]
        raise AutosyncError(
            f"A strategy of a run is named by its baseline or by how its digest begins, but {quoted(which)} names "
            f"{len(found) or 'none'} of {cut(self.title)}; the baselines are {listed(baselines)}, "
            f"the digests {listed([each[:8] for each in found or timed])}."
        )

    def _fastest(self, digests: Container[str]) -> str | None:
        """The digest with the least median over all complete trials: a single trial may have been lucky."""
        medians = {digest: seconds for digest, seconds in self.median_seconds.items() if digest in digests}
        return min(medians, key=medians.__getitem__, default=None)


def is_run(directory: Path) -> bool:
    return (directory / "run.json").is_file()


def read_run(directory: Path, data: Place | None = None) -> Run:
    """The run in `directory` with its records, from `data` or, unasked, from `kept_records`. Raises `AutosyncError`."""
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
        strategy=returned_strategy(directory),
        seconds_gone=None if state is None else float(state.get("seconds_gone", 0.0)),
        kept=kept,
    )
