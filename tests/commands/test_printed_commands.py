"""Every command that the program or its docs print is valid, and names the cluster of the run."""

from __future__ import annotations

import ast
import json
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from autosync.commands import COMMANDS
from autosync.commands import command as root
from autosync.report import write_report
from autosync.report.findings import Findings
from autosync.report.sections.headline import commands_of
from autosync.runs import read_run
from autosync.words.commands import RanOn, resume_command, train_command, trial_command
from tests.architecture.source_tree import ROOT, modules
from tests.commands.printed_commands import check_command, commands_in, commands_on
from tests.runs.examples import Story, search_records, write_finished_run, write_run

DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def asked(directory: Path, **more: Any) -> None:
    """Write the options that chose the run's cluster into the run's document."""
    file = directory / "run.json"
    document = json.loads(file.read_text())
    document["options"] |= {name: value for name, value in more.items() if name in ("emulate", "workers", "cluster")}
    document["asked"]["ran_on"] = more
    file.write_text(json.dumps(document))


def page_commands(directory: Path) -> list[str]:
    return [line for line, _ in commands_of(Findings(read_run(directory)))]


@pytest.mark.parametrize(
    ("ran_on", "before", "after"),
    [
        ({"emulate": "4x200mbit"}, "autosync emulate up --nodes 4 --link 200mbit && autosync emulate exec -- ", ""),
        ({"emulate": "two racks.yaml"}, "autosync emulate up 'two racks.yaml' && autosync emulate exec -- ", ""),
        ({"emulated_cluster": "net"}, "autosync emulate exec -- ", ""),
        ({"emulated_cluster": "mine"}, "autosync emulate exec --name mine -- ", ""),
        ({"workers": 2}, "", " --workers 2"),
        ({"cluster": "c.yaml", "address": "h:6379"}, "", " --address h:6379 --cluster c.yaml"),
        ({}, "", ""),
    ],
)
def test_a_report_prints_commands_that_parse_and_name_the_cluster_of_the_run(
    tmp_path: Path, ran_on: dict[str, Any], before: str, after: str
) -> None:
    directory = tmp_path / "run"
    write_finished_run(directory)
    asked(directory, **ran_on)
    printed = page_commands(directory)
    assert len(printed) == 3
    for line in printed:
        assert check_command(line)
    strategy = str(directory / "strategy.json")
    trained = f"{before}autosync train --model bert --strategy {strategy}{after}"
    assert trained in printed, printed
    assert trained.replace("autosync train", "autosync trial") in printed, printed


def test_a_report_names_the_framework_of_a_module(tmp_path: Path) -> None:
    write_finished_run(tmp_path)
    document = json.loads((tmp_path / "run.json").read_text())
    document["options"]["framework"] = "pytorch"
    (tmp_path / "run.json").write_text(json.dumps(document))
    call, trained, _, timed = page_commands(tmp_path)
    assert call == f"autosync.torch.distribute(model, {str(tmp_path / 'strategy.json')!r})"
    assert trained == f"autosync train --framework pytorch --model bert --strategy {tmp_path / 'strategy.json'}"
    assert timed.startswith("autosync trial --framework pytorch --model bert ")
    assert check_command(trained)
    assert check_command(timed)


def test_the_page_shows_these_commands(tmp_path: Path) -> None:
    write_finished_run(tmp_path / "run")
    asked(tmp_path / "run", emulate="4x200mbit")
    page = write_report(read_run(tmp_path / "run")).read_text(encoding="utf-8")
    printed = page_commands(tmp_path / "run")
    assert set(printed) <= set(commands_on(page))
    assert all(check_command(line) for line in commands_on(page))


def test_a_report_of_an_unfinished_run_prints_the_command_that_resumes_it(tmp_path: Path) -> None:
    options = ["--model", "bert", "--emulate", "4x200mbit", "--without-rule", "it's"]
    write_run(tmp_path / "run", Story(search_records()[:2]), command=options)
    line = shlex.join(["autosync", "tune", *options, "--out", str(tmp_path / "run"), "--resume"])
    assert page_commands(tmp_path / "run")[0] == line
    assert check_command(line) == ["tune"]


@pytest.mark.parametrize("name", ["with space", "'quoted'", "-x", "semi;colon"])
def test_names_are_quoted_for_the_shell(name: str) -> None:
    ran_on = RanOn(emulate=f"{name}.yaml", working_dir=name)
    for line in (train_command("mlp", name, ran_on), trial_command("mlp", name, ran_on)):
        assert shlex.split(line.split(" && ")[0])[-1] == f"{name}.yaml"
        words = shlex.split(line)
        assert words[words.index("--strategy") + 1] == name
    assert shlex.split(resume_command(["tune", "--model", name], name))[3] == name


def test_what_a_foreign_run_states_of_its_cluster_is_no_traceback() -> None:
    documents: list[dict[str, Any]] = [{"emulate": ["x"], "workers": {}, "cluster": True}, {"emulate": 7, "extra": 1}]
    assert train_command("mlp", "s.json", RanOn.of(*documents)).endswith("--strategy s.json")


@pytest.mark.parametrize("file", DOCS, ids=lambda file: file.name)
def test_commands_in_the_docs_parse(file: Path) -> None:
    for line in commands_in(file.read_text(encoding="utf-8")):
        assert check_command(line), line


def test_commands_in_the_docs_are_found() -> None:
    assert sum(len(list(commands_in(file.read_text(encoding="utf-8")))) for file in DOCS) > 50


def named_in(text: str) -> list[tuple[str, list[str]]]:
    """The subcommands that a message names, each with the options that follow it directly."""
    names = "|".join(COMMANDS)
    matches = re.findall(rf"\bautosync ((?:{names})\b(?: [a-z]+\b)?)((?: --[a-z][a-z-]*)*)", text)
    return [(called, options.split()) for called, options in matches]


def test_messages_name_subcommands_and_options_that_exist() -> None:
    counted = 0
    for file in (*modules("autosync"), *modules("trials"), *modules("search_spaces")):
        for node in ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for called, options in named_in(node.value):
                    name, *sub = called.split()
                    command = root.get_command(click.Context(root), name)
                    if sub and isinstance(command, click.Group) and sub[0] in command.commands:
                        command = command.commands[sub[0]]
                    assert command is not None
                    known = {
                        flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)
                    }
                    assert set(options) <= known | {"--help"}, (file, called, options)
                    counted += 1
    assert counted > 15
