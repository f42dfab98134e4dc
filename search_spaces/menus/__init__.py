"""Declared menus of disciplines: the systems of the literature, with their authors' settings where these carry over.

What hangs on the number of replicas follows it. A step count or a threshold that means epochs of a data set, or norms
of a network, means nothing elsewhere; then the nearest setting that does is taken, and an offer's `source` says so.
"""
