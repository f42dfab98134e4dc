"""The error of benchmarks."""

from __future__ import annotations

from typing import final

from autosync.errors import AutosyncError

__all__ = ["BenchError"]


@final
class BenchError(AutosyncError, RuntimeError):
    """A benchmark cannot run on what it was given."""
