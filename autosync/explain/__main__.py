"""`python -m autosync.explain`."""

import sys

from autosync.explain.cli import main

if __name__ == "__main__":
    sys.exit(main())
