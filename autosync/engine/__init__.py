"""The TensorFlow room: models are captured here, and strategies realized as running steps.

TensorFlow is imported only when something is called, so that looking at the room loads nothing.
"""
