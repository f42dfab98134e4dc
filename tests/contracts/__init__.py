"""The contracts that every implementation of a kind must keep."""
