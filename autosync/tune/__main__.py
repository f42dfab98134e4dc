"""`python -m autosync.tune`."""

import sys

from autosync.tune.cli import main

if __name__ == "__main__":
    sys.exit(main())
