"""Runs `python -m trials.emulate`."""

from __future__ import annotations

import sys

from trials.emulate.cli import main

if __name__ == "__main__":
    sys.exit(main())
