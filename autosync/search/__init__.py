"""Searchers behind one protocol, the loop that runs them, and the verdict on a search's outcome.

This file imports no module: the registry lists all searchers at once and loads a searcher's library on request.
"""
