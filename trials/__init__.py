"""One request in, one record out: trials, their back ends and workers, clusters stated, probed and emulated."""
