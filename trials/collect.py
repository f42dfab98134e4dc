"""`python -m trials.collect` is `autosync collect`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "collect")
    runpy.run_module("autosync", run_name="__main__")
