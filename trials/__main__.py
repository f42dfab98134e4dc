"""Runs `python -m trials`."""

from __future__ import annotations

import sys

from trials.cli import main

if __name__ == "__main__":
    sys.exit(main())
