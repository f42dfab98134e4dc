"""Training in the engine: what feeds a step, what a checkpoint holds of Keras, and metrics."""
