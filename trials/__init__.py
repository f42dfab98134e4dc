"""One strategy in, one record out: requests, timing, clocks, back ends, placement and probing."""
