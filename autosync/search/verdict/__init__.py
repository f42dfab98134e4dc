"""The verdict on a search: which strategy is fastest beyond the noise, and how much each of its decisions gains."""
