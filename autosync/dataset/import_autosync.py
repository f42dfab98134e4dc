"""`python -m autosync.dataset.import_autosync` is `autosync import`."""

import runpy
import sys

if __name__ == "__main__":
    sys.argv.insert(1, "import")
    runpy.run_module("autosync", run_name="__main__")
