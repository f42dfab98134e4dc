"""Training in the engine: the steps of one strategy, their data, and Keras's part of checkpoints."""
