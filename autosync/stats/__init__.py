"""What records say, in figures with their intervals: medians, noise, hits, accuracy, drift."""
