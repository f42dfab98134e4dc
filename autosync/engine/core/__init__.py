"""The contract of an engine, and the parts of execution that need no framework."""
