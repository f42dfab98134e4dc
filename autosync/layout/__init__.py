"""The layout of a strategy: its shards, the messages they share, and the sender and receiver of each message."""
