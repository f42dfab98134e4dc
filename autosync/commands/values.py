"""The values of options: their types, and the values that a shell completes.

A shell waits for completions, so every name is looked up in modules that load no framework.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, final

import click
from click.shell_completion import CompletionItem

from autosync.errors import SpecError
from autosync.spec.address import Address, Place, place_of
from autosync.words.commands import is_cluster_file

Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

TOPOLOGIES = Path("topologies")
"""The folder of cluster files in a clone of autosync."""

RUNS = Path("runs")
"""The folder of runs, as in `autosync.runs.listing`, which loads packages."""


class _PathType(click.ParamType):  # type: ignore[type-arg]  # only newer ones are generic
    """A path, which the shell completes itself."""

    name = "path"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002  click's own signature, here and below
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")]


@final
class FileType(_PathType):
    """A file or a folder here; `click.Path` would also check it, in Click's words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002
        return Path(value)


@final
class PlaceType(_PathType):
    """A folder of records: a path, or an address such as s3://bucket/records."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        if isinstance(value, Path | Address):
            return value
        try:
            return place_of(value)
        except SpecError as error:
            self.fail(str(error), param, ctx)


FILE, PLACE = FileType(), PlaceType()


def complete_among(names: Callable[[], Iterable[str] | Mapping[str, str]]) -> Completer:
    """A completer of the `names` that begin with the typed text; the values of a mapping describe its keys."""

    def complete(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
        known = names()
        about = known if isinstance(known, Mapping) else {}
        return [CompletionItem(name, help=about.get(name)) for name in known if name.startswith(incomplete)]

    return complete


def complete_cluster_file(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the cluster files of this folder, of the topologies, and of the typed folder; else any file."""
    folders = dict.fromkeys((Path(), TOPOLOGIES, Path(incomplete).parent, Path(incomplete)))
    files = [str(file) for folder in folders for file in _entries(folder) if is_cluster_file(file.name)]
    fitting = [CompletionItem(file) for file in dict.fromkeys(files) if file.startswith(incomplete)]
    return fitting or [CompletionItem(incomplete, type="file")]


def complete_run(_context: click.Context, _argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of runs in the folder of runs; else any folder."""
    fitting = [CompletionItem(name) for name in run_names() if name.startswith(incomplete)]
    return fitting or [CompletionItem(incomplete, type="dir")]


def run_names() -> list[str]:
    """The names in the folder of runs, sorted."""
    return sorted(entry.name for entry in _entries(RUNS) if entry.is_dir())


def model_names() -> dict[str, str]:
    """The models of the zoo, with a description each, and their short names."""
    from autosync.zoo import ALIASES, MODELS

    return {**MODELS, **{name: f"{on_cpus}, or {on_gpus} on GPUs" for name, (on_cpus, on_gpus) in ALIASES.items()}}


def space_names() -> list[str]:
    """The spaces that come with autosync."""
    import search_spaces

    return search_spaces.space_names()


def menu_names() -> list[str]:
    """The menus of disciplines that come with autosync."""
    import search_spaces

    return search_spaces.menu_names()


def rule_names() -> Mapping[str, str]:
    """The rules of search spaces that a search can do without, with a description each."""
    from autosync.space.priors import KNOWLEDGE

    return KNOWLEDGE


def labels_of_baselines() -> list[str]:
    from autosync.baselines import BASELINES

    return list(BASELINES)


def _entries(folder: Path) -> list[Path]:
    """The entries of `folder`, sorted; none if it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
