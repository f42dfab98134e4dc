"""A search under Ray Tune, from its options to its finals: where a model, a cluster, trials and a searcher meet."""
