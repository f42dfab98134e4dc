"""Runs `python -m trials.cluster`."""

from __future__ import annotations

import sys

from trials.cluster.cli import main

if __name__ == "__main__":
    sys.exit(main())
