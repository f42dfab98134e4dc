"""`autosync` on PyPI is another project: this project has another name there, and no text recommends the other one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from autosync.version import VERSION
from tests.architecture.source_tree import ROOT, project
from trials.clock import Environment

DISTRIBUTION = "autosync-dp"
FOREIGN = "autosync"

INSTALLS = re.compile(
    r"""\b(?:install|download|add|wheel)(?:ing|ed)?\b[^\n`;,]*?[\s'"`]autosync(?![\w/.-])(?=[\s'"`\[=<>~!,;.]|$)"""
    r"|\bautosync\[\w",
    re.MULTILINE,
)
"""A command, or advice, that would install `autosync` from an index, with any of its extras."""

TEXTS = {".py", ".md", ".yaml", ".yml", ".toml", ".txt", ".json", ".html", ".cfg", ""}
FOLDERS = ("autosync", "search_spaces", "trials", "tests", "examples", "docs", "topologies", ".ci")


def texts() -> list[Path]:
    """The files of the project that a person reads or runs, except this test and measured figures."""
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*")] + list(ROOT.glob("*"))
    return [
        file
        for file in files
        if file.is_file()
        and file.suffix in TEXTS
        and file != Path(__file__).resolve()
        and not {"__pycache__", "golden"} & set(file.parts)
    ]


def test_no_text_recommends_the_other_project() -> None:
    assert len(texts()) > 500
    advice = {
        f"{file.relative_to(ROOT)}: {hit.group()}"
        for file in texts()
        for hit in INSTALLS.finditer(file.read_text(encoding="utf-8", errors="replace"))
    }
    assert advice == set()


@pytest.mark.parametrize(
    "text",
    [
        "pip install autosync",
        "pip install 'autosync'",
        "needs Optuna; install autosync[rivals], or",
        "pip install --upgrade autosync>=0.1",
        "uv add autosync",
        "`autosync[dev]`",
    ],
)
def test_a_recommendation_would_be_noticed(text: str) -> None:
    assert INSTALLS.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install '.[rivals]'",
        "pip install autosync-dp",
        "pip install autosync_dp",
        "cd autosync-project; pip install .",
    ],
)
def test_the_project_itself_may_be_recommended(text: str) -> None:
    assert not INSTALLS.search(text)


def test_the_distribution_has_its_own_name_and_the_version_of_the_source() -> None:
    assert project()["project"]["name"] == DISTRIBUTION
    assert Environment.here().versions[FOREIGN] == VERSION


def test_the_version_is_that_of_the_source_even_beside_the_other_project(tmp_path: Path) -> None:
    """The other project's metadata comes first on the path, as if both were installed."""
    (tmp_path / "autosync-99.dist-info").mkdir()
    (tmp_path / "autosync-99.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: autosync\nVersion: 99\n")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from importlib.metadata import version; assert version('autosync') == '99'\n"
        "from trials.clock import Environment; print(Environment.here().versions['autosync'])\n"
        "from autosync.commands import main; main(['--version'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split()[:4] == [VERSION, "autosync,", "version", VERSION]
