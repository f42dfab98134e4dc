"""Races disciplines to a target metric: each candidate trains to the target, one after another, on paired seeds."""
