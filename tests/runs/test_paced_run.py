"""A paced run says so next to every figure; a real run never mentions it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from autosync.commands.trial import record_lines
from autosync.report.blocks import Facts, Picture
from autosync.report.findings import Findings
from autosync.report.pictures.axes import milliseconds_a_step
from autosync.report.sections.asked import question_blocks
from autosync.report.sections.contenders import contenders_blocks
from autosync.report.sections.headline import headline_of
from autosync.report.sections.predictions import predictions_blocks
from autosync.report.sections.search import search_blocks
from autosync.runs import contenders_of, contenders_table, read_run
from autosync.runs.listing import list_runs
from autosync.runs.run import Run
from autosync.runs.run_tables import runs_table
from autosync.spec import ClusterSpec, KeptPace, Pace, RuntimeRecord, canonical_json, read_json
from autosync.tune.result import marks_of
from autosync.words.quantities import milliseconds
from autosync.words.strategy import marked
from tests.cases import changing
from tests.runs.examples import write_finished_run


def paced_like(cluster: ClusterSpec) -> ClusterSpec:
    return replace(cluster, nodes=tuple(replace(node, pace=Pace(0.0, 0.1)) for node in cluster.nodes))


def paced_record(record: RuntimeRecord, cluster: ClusterSpec) -> RuntimeRecord:
    kept = KeptPace("paced", "recorded", 2, (0.1,), (0.1,), (1e-4,), (1e-3,))
    return replace(record, cluster=cluster, pace=kept if record.step_seconds else None)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Run:
    directory = tmp_path_factory.mktemp("whole") / "runs" / "one"
    write_finished_run(directory)
    return read_run(directory)


@pytest.fixture(scope="module")
def paced(real: Run) -> Run:
    """The same run as if its nodes had been paced."""
    cluster = paced_like(real.cluster)
    records = tuple(paced_record(record, cluster) for record in real.records)
    marks = marks_of(records)
    result = dict(real.result or {}) | marks
    result["verdict"] = {**result["verdict"], **marks}
    return replace(real, document={**real.document, "cluster": cluster.to_json()}, records=records, result=result)


def shown(table: object) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_times_and_labels_are_marked_only_where_they_are_not_real() -> None:
    assert (milliseconds(0.1), milliseconds(0.1, "paced")) == ("100.0 ms", "100.0 ms paced")
    assert marked("ring", False, "paced") == "ring (paced)"
    assert marked("ring", True, "paced") == "ring (lossy, paced)"
    assert marked("ring", True) == "ring (lossy)"
    assert milliseconds_a_step(["real", "real"]) == "milliseconds a step"
    assert milliseconds_a_step(["real", "paced"]) == "paced milliseconds a step"


def test_every_row_of_the_table_of_contenders_says_it_once(paced: Run) -> None:
    lines = shown(contenders_table(contenders_of(paced), None, None)).splitlines()[1:]
    assert len(lines) > 5
    assert all(line.count("paced") <= 1 for line in lines)
    assert all("ms paced" in line for line in lines if " ms" in line)
    without_records = contenders_of(replace(paced, records=()))
    assert {record.time for record in without_records} == {"paced"}


def test_verdict_headline_and_sections_of_the_report_say_it(paced: Run) -> None:
    assert paced.verdict is not None
    told = " Times marked paced are partly emulated: instead of computing a forward and backward pass, a worker waits "
    findings = Findings(paced)
    headline = headline_of(findings)
    assert "paced" in headline.title
    assert "paced" in headline.unit
    assert told in headline.sentence
    assert "has paid for itself" not in headline.advice
    assert all("ms paced" in value for name, value in headline.facts if name in ("best found", "best baseline"))
    for blocks in (contenders_blocks(findings), search_blocks(findings)):
        rows = [row for block in blocks for row in getattr(block, "rows", ())]
        assert rows
        assert all("paced" in " ".join(row.cells) for row in rows)


def test_what_ranked_the_candidates_is_said_also_where_it_was_left_to_the_program(real: Run, paced: Run) -> None:
    options = {**real.options, "searcher": "guided", "simulator": "auto"}
    for run, said in (
        (real, "by a learned simulator, after a closed form has preselected them (auto)"),
        (paced, "by replay (auto)"),
    ):
        used = "auto" if run is real else "replay"
        asked = {**run.description, "simulator": used}
        findings = Findings(replace(run, document={**run.document, "options": options, "asked": asked}))
        facts = dict(next(block.pairs for block in question_blocks(findings) if isinstance(block, Facts)))
        assert f"candidates ranked {said}" in facts["Search"]


def test_where_links_change_predictions_say_for_which_phase_they_are(real: Run) -> None:
    cluster = changing(real.cluster, (60.0, 0.1))
    records = [replace(record, cluster=cluster, phases=(0,) * len(record.step_seconds)) for record in real.records]
    records[0] = replace(records[0], phases=(0, *[1] * (len(records[0].step_seconds) - 1)))
    run = replace(real, document={**real.document, "cluster": cluster.to_json()}, records=tuple(records))
    (picture,) = (block for block in predictions_blocks(Findings(run)) if isinstance(block, Picture))
    assert (
        "Links change: predictions are for phase 0 of 0 to 1, by the first rates, whichever phase a trial is timed in. "
        "1 of these were timed after phase 0, in full or in part."
    ) in picture.caption
    (picture,) = (block for block in predictions_blocks(Findings(real)) if isinstance(block, Picture))
    assert "phase" not in picture.caption


def test_a_real_run_says_nothing_of_it(real: Run) -> None:
    findings = Findings(real)
    headline = headline_of(findings)
    assert "paced" not in f"{headline} {contenders_blocks(findings)} {search_blocks(findings)}"
    assert marks_of(real.records) == {}
    assert "paced" not in shown(contenders_table(contenders_of(real), None, None))


def test_the_list_of_runs_says_it(real: Run) -> None:
    folder = real.directory.parent
    assert "paced" not in shown(runs_table(list_runs(folder)))
    file = real.directory / "run.json"
    before = file.read_text(encoding="utf-8")
    try:
        document = dict(read_json(file, "run.json"))
        document["cluster"] = paced_like(real.cluster).to_json()
        file.write_text(canonical_json(document), encoding="utf-8")
        assert "ms paced" in shown(runs_table(list_runs(folder)))
    finally:
        file.write_text(before, encoding="utf-8")


def test_a_trial_in_words_says_it_and_how_the_pace_was_kept(paced: Run, real: Run) -> None:
    lines = list(record_lines(paced.trials[0]))
    assert [line.split(":")[0] for line in lines if line.startswith(("Median", "Mean", "Paced"))] == [
        "Median (paced)",
        "Mean (paced)",
        "Paced",
    ]
    assert not [line for line in record_lines(real.trials[0]) if "aced" in line]
