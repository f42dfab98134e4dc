"""Starts the command `python -m trials.collect`."""

from __future__ import annotations

import sys

from trials.collect.cli import main

if __name__ == "__main__":
    sys.exit(main())
