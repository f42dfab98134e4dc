"""`python -m autosync.tune`."""

from autosync.tune.cli import main

if __name__ == "__main__":
    main()
