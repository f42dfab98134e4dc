"""A strategy becomes one function over all devices: what is placed where, and a step of it."""
