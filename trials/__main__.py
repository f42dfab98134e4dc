"""`python -m trials` is `autosync trial`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "trial")
    runpy.run_module("autosync", run_name="__main__")
