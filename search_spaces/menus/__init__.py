"""Declared menus of disciplines: systems of the literature, with their authors' settings where these carry over.

Settings that depend on the number of replicas follow that number. A step count or threshold that refers to the epochs
of a data set or the norms of a network is meaningless elsewhere. The nearest meaningful setting replaces it, and the
entry's `source` states that setting.
"""
