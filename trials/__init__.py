"""Trials: turns one request into one record, with back ends, workers, and clusters from files, probes or emulation."""
