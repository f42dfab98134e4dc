"""The explaining edge: what a strategy does, what that costs on a cluster, and which baseline it is nearest to."""
