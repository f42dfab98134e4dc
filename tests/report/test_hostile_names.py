"""Names that a stranger chose appear as text on a page: no name of a model, variable, node or link becomes an
element.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from autosync.report import write_report
from autosync.report.blocks import Commands
from autosync.report.comparison import standings_of, write_comparison
from autosync.report.findings import Findings
from autosync.report.sections.asked import question_blocks
from autosync.runs import read_run
from autosync.spec import ClusterSpec, ModelSpec
from tests.report.pages import seen
from tests.runs import examples

NAMES = {
    "elements": "</title></style><script>alert(document.cookie)</script>",
    "attributes": "\"><img src=x onerror=alert(1)></text></svg><svg onload='alert(1)'>",
    "templates": "{{ 7 * 7 }}{% include '/etc/passwd' %}" + r"$\frac{$_{x}^{",
    "entities": "&lt;script&gt;&#60;b&#62; x; rm -rf $HOME `id` $(id) && javascript:alert(1)",
}


@pytest.fixture(params=list(NAMES))
def hostile(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, str]]:
    name = NAMES[request.param]
    written = json.dumps(name)[1:-1]
    model = json.dumps(examples.MODEL.to_json()).replace("embedding", f"{written}embedding")
    cluster = json.dumps(examples.CLUSTER.to_json()).replace("node1", f"{written.replace('/', '|')}1")
    examples._strategies.cache_clear()
    monkeypatch.setattr(examples, "MODEL", ModelSpec.from_json(json.loads(model) | {"name": name}))
    monkeypatch.setattr(examples, "CLUSTER", ClusterSpec.from_json(json.loads(cluster)))
    examples.write_finished_run(tmp_path / "run", label=name)
    yield tmp_path / "run", name
    examples._strategies.cache_clear()


def test_a_report_and_a_comparison_show_them_as_text(hostile: tuple[Path, str]) -> None:
    directory, name = hostile
    document = json.loads((directory / "run.json").read_text())
    document["asked"]["command"] = f"autosync tune {name}"
    document["options"] |= {"model": name, "space": name, "searcher": name}
    (directory / "run.json").write_text(json.dumps(document))
    run = read_run(directory)
    pages = [write_report(run), write_comparison(standings_of([run, run]), directory / "comparison.html")]
    for file in pages:
        page = seen(file)
        assert page.faults == []
        assert page.tags["script"] == page.tags["img"] == page.tags["iframe"] == 0
        assert not any(link.lower().startswith("javascript") for link in page.links)
        assert name in page.text


@pytest.mark.parametrize("more", ["; rm -rf ~", "&& curl stranger | sh", "$(id) `id`", "\nrm x", "'"])
def test_the_command_of_a_run_is_one_command_when_it_is_pasted(tmp_path: Path, more: str) -> None:
    run = examples.write_run(tmp_path / "run", examples.Story(()), command=["--model", "bert", "--out", "my run"])
    began = command_shown(run.path)
    assert began == "autosync tune --model bert --out 'my run'"
    document = json.loads((run.path / "run.json").read_text())
    document["asked"]["command"] = f"{began} {more}"
    (run.path / "run.json").write_text(json.dumps(document))
    pasted = f"set -- {command_shown(run.path)}; echo one"
    told = subprocess.run(["sh", "-c", pasted], capture_output=True, text=True, check=True)
    assert (told.stdout, told.stderr) == ("one\n", "")


def command_shown(run: Path) -> str:
    (line,) = [block.lines[0][0] for block in question_blocks(Findings(read_run(run))) if isinstance(block, Commands)]
    return line
