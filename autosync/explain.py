"""`python -m autosync.explain` is `autosync explain`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "explain")
    runpy.run_module("autosync", run_name="__main__")
