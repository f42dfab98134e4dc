"""Text from outside is parsed in two places, which have limits; what is parsed elsewhere the program has written."""

from __future__ import annotations

import re

from tests.architecture.source_tree import ROOT

READERS = {"autosync/spec/reading.py", "autosync/yaml_text.py"}

OWN_WORDS = {
    "autosync/tune/options.py": "the options, of which pydantic has just made JSON",
    "autosync/tune/ray_tune.py": "a request, which the searcher beside it has written",
    "autosync/engine/capture/captured.py": "a captured model, which another process of the program sends",
    "autosync/runs/documents.py": "a file of the package",
    "autosync/dataset/results.py": "metadata of a Parquet file, a number for each key",
    "autosync/studies/collect/card.py": "a row's versions, which are a column of records",
    "trials/emulate/ray_nodes.py": "what a process of the program's own prints",
}

PARSED = re.compile(r"\bjson\.loads?\(|\byaml\.(\w+_)?(load|parse|compose)(_\w+)?\(|model_validate_json|JSONDecoder")


def test_nothing_but_the_readers_parses_text_from_outside():
    found = {
        str(file.relative_to(ROOT))
        for package in ("autosync", "trials", "search_spaces", "examples")
        for file in (ROOT / package).rglob("*.py")
        if PARSED.search(file.read_text(encoding="utf-8"))
    }
    assert found >= READERS
    assert found - READERS <= set(OWN_WORDS), "read it with autosync.spec.read_json or parse_json, or parse_yaml"


def test_a_parser_elsewhere_would_be_noticed():
    for line in ("json.loads(text)", "json.load(file)", "yaml.safe_load(text)", "yaml.load(text, Loader)"):
        assert PARSED.search(line)
    assert not PARSED.search("parse_yaml(data) and parse_json(data)")
