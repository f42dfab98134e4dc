"""`python -m autosync` is `autosync`."""

import sys

from autosync.commands import main

if __name__ == "__main__":
    sys.exit(main())
