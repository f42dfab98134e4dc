"""Places that a process imports a user's model from: folders, and modules whose text is sent to it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import ExecutionLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import TypeAlias, final

from autosync.files import read_whole, write_atomically

TAKEN = "model_from_main"
"""The module that holds a model function taken from a script or a notebook, which no other process can import."""


@dataclass(frozen=True)
class ModuleText:
    """A module as text. It reaches machines that do not share a file system with the sender."""

    name: str
    text: str


ImportPlace: TypeAlias = str | ModuleText
"""A folder, or a module as text."""


def places_in(folder: Path | None) -> tuple[ImportPlace, ...]:
    """The places of a model that is imported from `folder`; none for None."""
    if folder is None:
        return ()
    file = folder / f"{TAKEN}.py"
    texts = [ModuleText(TAKEN, read_whole(file).decode())] if file.is_file() else []
    return (*texts, str(folder))


def import_from(places: Sequence[ImportPlace]) -> None:
    """Let this process import from `places` before all others."""
    sys.path[:0] = [place for place in places if isinstance(place, str) and place not in sys.path]
    texts = {place.name: place.text for place in places if isinstance(place, ModuleText)}
    if texts:
        sys.meta_path.insert(0, _Texts(texts))


@contextmanager
def folder_of_texts(places: Sequence[ImportPlace]) -> Iterator[Path]:
    """A temporary folder with the modules among `places` that are texts, for a process that is started in the block."""
    with tempfile.TemporaryDirectory(prefix="autosync-model-") as name:
        for place in places:
            if isinstance(place, ModuleText):
                write_atomically(Path(name) / f"{place.name}.py", place.text)
        yield Path(name)


@final
class _Texts(MetaPathFinder, ExecutionLoader):
    """Finds and loads modules from their texts. Tracebacks and `inspect.getsource` show the text."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def find_spec(self, fullname: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        del path, target
        return spec_from_loader(fullname, self) if fullname in self._texts else None

    def get_filename(self, fullname: str) -> str:
        return f"{fullname}.py"

    def get_source(self, fullname: str) -> str:
        return self._texts[fullname]
