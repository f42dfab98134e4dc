"""`python -m trials.cluster` is `autosync cluster`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "cluster")
    runpy.run_module("autosync", run_name="__main__")
