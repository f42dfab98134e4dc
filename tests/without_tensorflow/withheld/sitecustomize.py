"""Hides the packages of the extra `tensorflow` from a process with this folder in PYTHONPATH, and from its children.

Python imports this module at its start. The packages then look as if they were not installed.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder

WITHHELD = ("absl", "h5py", "keras", "keras_hub", "ml_dtypes", "tensorflow", "tensorflow_text")
"""Import names of the extra's packages, and of some that only they need."""


class FinderWithoutExtra(PathFinder):
    """Python's own finder of modules, which does not find `WITHHELD`."""

    @classmethod
    def find_spec(cls, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if fullname in WITHHELD:
            return None
        return super().find_spec(fullname, path, target)  # type: ignore[arg-type]


sys.meta_path[sys.meta_path.index(PathFinder)] = FinderWithoutExtra
