"""The closed form: step seconds from the loads of all resources, for thousands of strategies at once."""
