"""Training in the engine: steps of one strategy, what feeds them, and what a checkpoint holds of Keras."""
