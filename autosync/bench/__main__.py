"""`python -m autosync.bench`."""

import sys

from autosync.bench.cli import main

if __name__ == "__main__":
    sys.exit(main())
