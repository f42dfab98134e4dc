"""The TensorFlow engine. `engine.py` loads no framework; the other modules are imported once TensorFlow is loaded."""
