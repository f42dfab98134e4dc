"""Commands read records at an address like records in a folder, and refuse options that an address cannot have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import studies.commands
from autosync.commands import main
from autosync.dataset import RecordStore
from autosync.runs import read_run
from autosync.spec.address import Address
from autosync.tune.options import OptionsError, TuneOptions
from tests.dataset.s3 import S3, credentials, s3_server
from tests.runs.examples import Story, search_records, write_run
from tests.studies.evaluation.made_up import records

pytest.importorskip("moto.server", reason="moto serves S3 in these tests; run `pip install '.[dev]'`")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with pytest.MonkeyPatch.context() as patch, s3_server(tmp_path_factory.mktemp("s3") / "log") as made:
        for name, value in credentials().items():
            patch.setenv(name, value)
        yield made


def test_a_run_knows_the_address_of_its_records(server: S3, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = server.folder("runs")
    write_run(tmp_path / "one", Story(search_records()), address)
    run = read_run(tmp_path / "one", address)
    assert (run.data, len(run.trials)) == (address, len(search_records()))
    assert main(["report", str(tmp_path / "one"), "--data", str(address)]) == 0
    assert str(address) in (tmp_path / "one" / "report.html").read_text().replace("&amp;", "&")
    assert main(["runs", "export", str(tmp_path / "one"), "--data", str(address)]) == 0
    assert len(capsys.readouterr().out.splitlines()) > len(search_records())


@pytest.mark.quick("in the folder")
@pytest.mark.parametrize("within", ["", "/records"], ids=["in the folder", "in records within it"])
def test_what_is_taught_by_records_at_an_address_is_what_a_folder_teaches(
    server: S3, tmp_path: Path, within: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"taught{len(within)}"
    address, printed = server.folder(name), []
    for data in (server.folder(name + within), tmp_path / "data"):
        store = RecordStore.create(data)
        for record in records(40, 2):
            store.append(record)
        store.compact()
    for data in (address, tmp_path / "data"):
        assert main(["pretrain", "--data", str(data), "--out", str(tmp_path / "out")]) == 0
        printed.append((capsys.readouterr().out, (tmp_path / "out" / "simulator.safetensors").read_bytes()))
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["pretrain", "--data", "s3://id:hidden@bucket/x"], "holds no secrets; give those as the tools"),
        (["runs", "show", "x", "--data", "s3://"], "An address of records is SCHEME://HOST/PATH, such as s3://bucket/"),
        (
            ["pretrain", "--data", "foo://a/b"],
            "at an address that pyarrow.fs knows, such as s3://bucket/records",
        ),
        (["tune", "--model", "mlp", "--data", "file://host/x"], "A file:// address names a folder of this machine"),
    ],
)
def test_what_is_asked_wrongly_is_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert "hidden" not in said


def test_the_report_of_an_evaluation_is_in_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert studies.commands.main(["evaluate", "--data", "gs://bucket/x"]) == 2
    assert "The report cannot be written to gs://bucket/x; name a local folder with --out." in capsys.readouterr().err


def test_a_search_takes_an_address_and_an_emulated_one_does_not(tmp_path: Path) -> None:
    make: Callable[..., TuneOptions] = TuneOptions.create
    options = make(model="mlp", out=tmp_path, data="s3://bucket/x/")
    assert options.data == Address("s3://bucket/x")
    assert options.identity()["data"] == "s3://bucket/x"
    assert make(model="mlp", out=tmp_path, data="~/x").data == Path("~/x")
    with pytest.raises(OptionsError, match=r"^--emulate makes a cluster whose nodes reach only each other"):
        make(model="mlp", out=tmp_path, data="s3://bucket/x", emulate="2x200mbit")
