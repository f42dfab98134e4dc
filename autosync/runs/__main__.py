"""`python -m autosync.runs`."""

import sys

from autosync.runs.cli import main

if __name__ == "__main__":
    sys.exit(main())
