"""The conda recipe needs what pyproject.toml needs, under conda's names."""

from __future__ import annotations

import re

import yaml

from autosync.version import VERSION
from tests.architecture.source_tree import ROOT, project

NAMES = {
    "torch": "pytorch",
    "torch-geometric": "pytorch_geometric",
    "matplotlib": "matplotlib-base",
    "tensorboardX": "tensorboardx",
}
"""Distributions that have another name on conda-forge."""

RECIPE = yaml.safe_load((ROOT / "conda" / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))


def conda_requirements(requirements: list[str]) -> set[str]:
    """Return `requirements` of pip as conda writes them: an extra of a distribution is a package of its own."""
    found = set()
    for requirement in requirements:
        name, extras, bound = re.fullmatch(r"([\w.-]+)(?:\[([\w,]+)\])?(>=[\d.]+)", requirement).groups()  # type: ignore[union-attr]
        names = [f"{name}-{extra}" for extra in extras.split(",")] if extras else [NAMES.get(name, name)]
        found |= {f"{conda} {bound}" for conda in names}
    return found


def test_the_recipe_requires_the_projects_dependencies() -> None:
    about = project()["project"]
    required = set(RECIPE["requirements"]["run"])
    assert required == conda_requirements(about["dependencies"]) | {f"python {about['requires-python']}"}
    assert len(required) > 15


def test_the_recipe_bounds_the_packages_of_the_extras() -> None:
    extras = project()["project"]["optional-dependencies"]
    assert set(RECIPE["requirements"]["run_constraints"]) == conda_requirements(extras["tensorflow"] + extras["rivals"])


def test_the_recipe_builds_with_the_projects_build_requirements() -> None:
    host = set(RECIPE["requirements"]["host"])
    assert host - {"pip"} == conda_requirements(project()["build-system"]["requires"]) | {
        f"python {project()['project']['requires-python']}"
    }


def test_the_recipe_has_the_name_version_license_and_commands_of_the_project() -> None:
    about = project()["project"]
    assert RECIPE["package"]["name"] == about["name"]
    assert RECIPE["context"]["version"] == VERSION
    assert RECIPE["about"]["license"] == about["license"]
    assert RECIPE["about"]["summary"] == about["description"]
    assert (ROOT / RECIPE["about"]["license_file"]).exists()
    scripts = [f"{name} = {target}" for name, target in about["scripts"].items()]
    assert RECIPE["build"]["python"]["entry_points"] == scripts
