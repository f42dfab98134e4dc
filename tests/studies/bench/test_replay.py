"""The commands that replay, end to end on a small dataset: no search runs twice, and tables are made from the files."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from autosync.dataset import RecordStore, ResultStore
from autosync.errors import BenchError
from studies.bench.columns import SEARCHES
from studies.bench.contenders import OURS, PriorKnowledge
from studies.bench.replaying import Replaying, SearchJob, checkpoint_of, replay_search
from studies.bench.report import Material
from studies.bench.standings import Contest, curves_of
from studies.commands.bench import main
from tests.tune.recorded.examples import cell, records_of, write_dataset


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "data")


def replayed(data: Path, *more: str, command: str = "replay") -> int:
    chosen = ["--data", str(data), "--out", str(data.parent / "out"), "--trials", "15", "--processes", "1"]
    return main([command, *chosen, *more])


def rows(data: Path) -> list[dict]:
    return ResultStore(data.parent / "out" / "searches", SEARCHES).read()


def test_what_is_done_is_not_done_again_and_what_is_new_is_added(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replayed(data, "--searchers", "random,guided-analytic", "--seeds", "5") == 0
    assert "20 searches are new." in capsys.readouterr().out
    first = rows(data)
    assert replayed(data, "--searchers", "random,guided-analytic", "--seeds", "5") == 0
    assert "0 searches are new." in capsys.readouterr().out
    assert rows(data) == first
    assert replayed(data, "--searchers", "random", "--seeds", "7", "--cells", "mlp@two") == 0
    assert "5 searches are new." in capsys.readouterr().out
    assert sorted(row["seed"] for row in rows(data) if (row["cell"], row["searcher"]) == ("mlp@two", "random")) == [
        *range(10)
    ]


def test_merged_results_are_not_done_again_either(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("--searchers", "random", "--seeds", "5")
    assert replayed(data, *chosen) == 0
    before = rows(data)
    assert main(["merge", "--out", str(data.parent / "out")]) == 0
    assert "searches: merged 2 files into one." in capsys.readouterr().out
    assert rows(data) == before
    assert replayed(data, *chosen) == 0
    assert "0 searches are new." in capsys.readouterr().out


def test_a_row_tells_the_whole_search(data: Path) -> None:
    replayed(data, "--searchers", "evolution", "--seeds", "5", "--cells", "mlp@two")
    recorded = cell()
    by_digest = {strategy.digest: strategy for strategy in recorded.trials}
    for row in rows(data):
        assert len(row["strategies"]) == len(set(row["strategies"])) == 15
        assert row["true_seconds"] == [recorded.seconds[by_digest[name]] for name in row["strategies"]]
        assert row["clock_seconds"] == sorted(row["clock_seconds"])
        assert row["purposes"].count("baseline") == len(recorded.baselines)
        assert row["data"] == recorded.digest


def test_without_baselines_no_search_begins_with_them(data: Path) -> None:
    replayed(data, "--searchers", "random", "--seeds", "5", "--no-baselines", "--cells", "mlp@two")
    assert all("baseline" not in row["purposes"] for row in rows(data))
    assert len({row["strategies"][0] for row in rows(data)}) > 1


@pytest.mark.thorough
def test_a_seed_gives_the_same_search_here_and_in_another_process(data: Path, tmp_path: Path) -> None:
    recorded = cell()
    job = SearchJob(recorded.name, recorded.digest, "guided-analytic", True, 15, 0)
    ((_, there),) = Replaying(data, tmp_path).run([job], processes=2)
    here = [replay_search(recorded, job, seed, PriorKnowledge()) for seed in job.seeds]
    assert [row["strategies"] for row in there] == [row["strategies"] for row in here]


def test_records_that_change_while_they_are_replayed_are_noticed(data: Path, tmp_path: Path) -> None:
    job = SearchJob("mlp@two", "0123", "random", True, 15, 0)
    with pytest.raises(
        BenchError, match="The records of mlp@two have changed since this command started; run it again"
    ):
        list(Replaying(data, tmp_path).run([job], processes=1))


@pytest.mark.thorough
def test_tables_are_made_from_the_files_alone(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replayed(data, "--searchers", "random,guided-analytic", "--seeds", "5")
    replayed(data, "--searchers", "random", "--seeds", "5", "--no-baselines")
    for file in (data / "records").iterdir():
        file.unlink()
    assert main(["tables", "--out", str(data.parent / "out")]) == 0
    page = data.parent / "out" / "report" / "benchmarks.md"
    assert str(page) in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    for picture in ("summary_trials", "summary_bare_trials", "cell_mlp_two", "cell_mlp_three_bare"):
        assert f"({picture}.{'png' if picture.startswith('cell') else 'svg'})" in text
        assert (page.parent / f"{picture}.png").stat().st_size > 1000
    with (page.parent / "within_5_percent.csv").open(encoding="utf-8") as file:
        table = {line["cell"]: line for line in csv.DictReader(file)}
    curves = curves_of(rows(data))[Contest("mlp@two", "random", True)]
    median = sorted(curves.trials_to(0.05))[2]
    assert table["mlp@two"]["random"].startswith(f"{median:.3g} [")


@pytest.mark.thorough
def test_tables_are_of_the_newest_records(data: Path) -> None:
    replayed(data, "--searchers", "random", "--seeds", "5")
    extra = next(record for record in records_of("two") if record.purpose == "search")
    RecordStore(data / "records").append(type(extra)(**{**vars(extra), "started_at": 5000.0}))
    replayed(data, "--searchers", "random", "--seeds", "5", "--cells", "mlp@two")
    assert len(rows(data)) == 15
    main(["tables", "--out", str(data.parent / "out")])
    text = (data.parent / "out" / "report" / "benchmarks.md").read_text(encoding="utf-8")
    assert "10 replayed searches and 0 live ones." in text


@pytest.mark.thorough
def test_ablations_compare_guided_search_with_less_of_it(data: Path) -> None:
    names = "guided-replay,guided-analytic"
    assert replayed(data, "--searchers", names, "--seeds", "5", command="ablations") == 0
    main(["tables", "--out", str(data.parent / "out")])
    with (data.parent / "out" / "report" / "ablations.csv").open(encoding="utf-8") as file:
        (line,) = csv.DictReader(file)
    assert (line["without"], line["whole"]) == ("the replay and the network, the closed form alone", "guided-replay")


@pytest.mark.thorough
def test_variants_are_compared_by_the_seeds_that_all_were_run_with(data: Path) -> None:
    replayed(data, "--searchers", "random", "--seeds", "10")
    replayed(data, "--searchers", "guided-analytic", "--seeds", "5", command="ablations")
    standings = Material.read(data.parent / "out").variants(baselines=True)
    assert {len(curves.true) for curves in standings.curves.values()} == {5}
    assert {contest.searcher for contest in standings.curves} == {"random", "guided-analytic"}
    assert not Material.read(data.parent / "out").variants(baselines=False).curves


def test_knowledge_is_transferred_from_other_cells_by_a_checkpoint_that_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = cell("two")
    checkpoint = checkpoint_of([cell("three")], tmp_path)
    made = {file.name: file.stat().st_mtime_ns for file in checkpoint.iterdir()}
    assert checkpoint_of([cell("three")], tmp_path) == checkpoint
    assert {file.name: file.stat().st_mtime_ns for file in checkpoint.iterdir()} == made
    job = SearchJob(recorded.name, recorded.digest, OURS, True, len(recorded.baselines) + 2, 0)
    row = replay_search(recorded, job, 0, PriorKnowledge(checkpoint))
    assert "guided" in row["labels"]
    with pytest.raises(BenchError, match="needs the checkpoint pretrained on other cells"):
        replay_search(recorded, job, 0, PriorKnowledge())
    monkeypatch.setattr("autosync.simulator.CHECKPOINTS", "a format that this one cannot be read in")
    assert checkpoint_of([cell("three")], tmp_path) != checkpoint


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ["--searchers", "nosuch"],
            "bench: --searchers needs names among guided, evolution, random, original, tpe, tpe-knobs, gp, gp-knobs, ",
        ),
        (["--cells", "mlp@nosuch"], "bench: Cells in "),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(
    data: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    assert replayed(data, "--searchers", "random", *options) == 2
    assert capsys.readouterr().err.startswith(sentence)


def test_without_results_there_is_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tables", "--out", str(tmp_path)]) == 2
    assert f"bench: {tmp_path} holds no results; run `replay` or `live`" in capsys.readouterr().err
