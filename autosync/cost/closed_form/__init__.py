"""The closed form: a step's seconds by what each resource has to carry, for thousands of strategies at once."""
