"""Misspelt names are refused with the most similar known name, in one sentence and a question."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.commands import main
from autosync.errors import SpaceError, did_you_mean
from search_spaces import load_menu, load_space
from tests.runs.examples import write_finished_run
from tests.runs.test_kinds import write_training


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    return told.err.strip()


@pytest.mark.parametrize(
    ("arguments", "suggested"),
    [
        (("explian", "strategy.json"), "explain"),
        (("runs", "lst"), "list"),
        (("emulate", "statsu"), "status"),
        (("tune", "--trails", "3"), "--trials"),
        (("tune", "--model", "bert-mni"), "bert-mini"),
        (("train", "--model", "restnet50", "--strategy", "s"), "resnet50"),
        (("tune", "--model", "mlp", "--searcher", "guidde"), "guided"),
        (("tune", "--model", "mlp", "--simulator", "analytical"), "analytic"),
        (("replay", "--data", "d", "--model", "mlp@x", "--searcher", "evolutoin"), "evolution"),
        (("tune", "--model", "mlp", "--on-node-loss", "wiat"), "wait"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_known_one(
    arguments: tuple[str, ...], suggested: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").write_text('{"format": "autosync.strategy/1", "replicas": ["a/cpu:0"], "variables": []}')
    _, _, question = refused(capsys, *arguments).partition("id you mean ")
    assert f"'{suggested}'" in question  # Click may suggest several
    assert question.rstrip(")").endswith("?") or "? Known: " in question


def test_a_misspelt_space_menu_and_rule_are_refused_with_the_known_one() -> None:
    with pytest.raises(SpaceError, match=r"No search space is called 'defualt'\. Did you mean 'default'"):
        load_space("defualt")
    with pytest.raises(SpaceError, match=r"No menu is called 'system'\. Did you mean 'systems'"):
        load_menu("system")
    with pytest.raises(SpaceError, match=r"no rule 'bucket-order' to do without\. Did you mean 'bucket_order'"):
        load_space("default").without("bucket-order")


def test_a_misspelt_run_and_baseline_are_refused_with_the_known_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    write_training(tmp_path / "runs" / "trained")
    write_finished_run(tmp_path / "runs" / "searched")
    assert refused(capsys, "runs", "show", "traind").endswith("Did you mean 'trained'?")
    assert refused(capsys, "runs", "strategy", "paralax", "searched").endswith("Did you mean 'parallax'?")


def test_nothing_is_suggested_for_a_name_like_no_other() -> None:
    assert did_you_mean("quite another", ["bert", "vgg"]) == ""
    assert did_you_mean("x" * 100_000, ["bert", "x" * 90]) == f" Did you mean {'x' * 90!r}?"
