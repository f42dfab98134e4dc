"""The systems of the literature side by side: each experiment one command, each claim with its bound."""
