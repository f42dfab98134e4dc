"""Searches from Python: `find_strategy` runs a whole search, and `Search` proposes strategies that the caller times."""
