"""Pictures, one a file, each drawn at a width: what a phone can show has another shape than a page has."""
