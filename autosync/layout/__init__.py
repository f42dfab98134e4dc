"""A strategy laid out: its shards, what travels together, and who sends what to whom."""
