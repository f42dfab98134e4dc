"""Predicts strategies and their search at scale: up to 1024 workers, models of real size, without running training."""
