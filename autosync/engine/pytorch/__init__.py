"""The PyTorch engine: a process per replica, whose gradients are synchronized while the backward pass runs."""
