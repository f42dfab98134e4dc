"""How strategies and their search do at scale, by prediction alone: clusters of up to 1024 workers, real-size models."""
