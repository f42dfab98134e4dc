"""`python -m autosync.runs` is `autosync runs`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "runs")
    runpy.run_module("autosync", run_name="__main__")
