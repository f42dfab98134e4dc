"""`python -m autosync.report`."""

import sys

from autosync.report.cli import main

if __name__ == "__main__":
    sys.exit(main())
