"""`python -m autosync.report` is `autosync report`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "report")
    runpy.run_module("autosync", run_name="__main__")
