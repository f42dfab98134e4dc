"""Compares the systems of the literature: one command per experiment, one bound per claim."""
