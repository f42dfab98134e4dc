"""Finds the line of a user's code that caused an error."""

import os
import sysconfig
import traceback
from pathlib import Path
from types import FrameType

from autosync.spec import said


def blame(error: BaseException) -> str:
    """The error's type, up to 300 characters of its message, and the innermost line of the user's code."""
    message = said(error) if error.args else "no message"
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {message}"
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_users(frame)]
    if not frames:
        return f"{type(error).__name__}: {message}"
    frame, line = frames[-1]
    return f"{type(error).__name__}: {message} (at {os.path.relpath(frame.f_code.co_filename)}:{line})"


def _is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    paths = sysconfig.get_paths()
    libraries = {paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]}
    ours = str(Path(__file__).resolve().parents[3])
    return os.path.isfile(file) and not any(file.startswith(folder + os.sep) for folder in {*libraries, ours})
