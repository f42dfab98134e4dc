"""The command `python -m autosync.train`."""

import sys

from autosync.train.cli import main

if __name__ == "__main__":
    sys.exit(main())
