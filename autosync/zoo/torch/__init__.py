"""The zoo's models in PyTorch: variables of the shapes, and batches, of their Keras twins. No weights are downloaded.

A module of this package has a function of the model's name for each of its models. The function returns the module, the
loss, an example batch and the optimizer.
"""
