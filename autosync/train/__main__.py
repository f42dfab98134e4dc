"""`python -m autosync.train`."""

from autosync.train.cli import main

if __name__ == "__main__":
    main()
