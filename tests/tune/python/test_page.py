"""The examples of docs/python.md run, one after the other, in one script."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from tests.architecture.source_tree import ROOT
from tests.tune.jobs import Job, ended


def examples(page: str) -> list[str]:
    """The indented blocks of a page, without their indentation."""
    return [textwrap.dedent(block) for block in re.findall(r"(?m)(?:^(?: {4}.*)?\n)*^ {4}.*\n", page)]


def test_the_examples_of_the_page_run(tmp_path: Path) -> None:
    blocks = examples((ROOT / "docs/python.md").read_text(encoding="utf-8"))
    assert len(blocks) == 4
    (tmp_path / "page.py").write_text("\n".join(blocks))
    job = Job(tmp_path, module="page")
    printed = ended(job, 0)
    job.end()
    assert (tmp_path / "runs/mine/model_from_main.py").exists()
    assert "best baseline" in printed
    digest, label = next(line for line in printed.splitlines() if re.fullmatch("[0-9a-f]{16} [a-z_0-9]+", line)).split()
    assert (len(digest), bool(label)) == (16, True)
    assert re.fullmatch("[0-9a-f]{16}", printed.splitlines()[-1])
