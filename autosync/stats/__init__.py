"""Statistics of records, with intervals: medians, noise, hits, accuracy, drift."""
