"""Pictures, one a file. Each is drawn for a width: what a phone can show has another shape than what a page has."""
