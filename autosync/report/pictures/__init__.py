"""Pictures, one per file. Each is drawn per width, because a phone needs another shape than a page."""
