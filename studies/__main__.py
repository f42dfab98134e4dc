"""`python -m studies`."""

import sys

from studies.commands import main

if __name__ == "__main__":
    sys.exit(main())
