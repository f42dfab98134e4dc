"""`python -m autosync.bench` is `autosync bench`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "bench")
    runpy.run_module("autosync", run_name="__main__")
