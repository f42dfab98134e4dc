"""What each all-reduce algorithm sends: one file an algorithm."""
