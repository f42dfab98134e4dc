"""Strategy files of earlier versions still load with the same meaning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autosync.spec import Strategy, check_strategy, parse_json
from tests import cases

FOLDER = Path(__file__).parent.parent / "golden" / "strategies"
DIGESTS: dict[str, str] = json.loads((FOLDER / "digests.json").read_text())


def load(name: str) -> Strategy:
    return Strategy.from_json(parse_json((FOLDER / name).read_text(), name))


def test_every_golden_file_is_looked_at():
    assert sorted(DIGESTS) == sorted(path.name for path in FOLDER.glob("*.json") if path.name != "digests.json")
    assert len(DIGESTS) >= 4


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_a_golden_strategy_still_loads_with_its_digest(name: str):
    assert load(name).digest == DIGESTS[name]


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_a_golden_strategy_is_written_as_it_was_read(name: str):
    document = parse_json((FOLDER / name).read_text(), name)
    document.pop("summary", None)
    assert load(name).to_json() == document


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_a_golden_strategy_still_fits_its_model_and_cluster(name: str):
    model = cases.prime_model() if "prime" in name else cases.mlp_model()
    check_strategy(load(name), model, cases.star_cluster(nodes=2, workers=2))
