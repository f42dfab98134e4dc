"""`python -m autosync.tune` is `autosync tune`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "tune")
    runpy.run_module("autosync", run_name="__main__")
