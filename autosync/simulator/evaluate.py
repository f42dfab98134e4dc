"""`python -m autosync.simulator.evaluate` is `autosync evaluate`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "evaluate")
    runpy.run_module("autosync", run_name="__main__")
