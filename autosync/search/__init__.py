"""How to choose: searchers behind one protocol, the loop that runs them, and how sure the outcome is.

Nothing is imported here: the registry names searchers at once, and loads their libraries when one is asked for.
"""
