"""How strategies and their search do at scale, by prediction alone: up to 1024 workers, models of real size."""
