"""The proof on PyTorch: searches, DDP and an all-reduce tuned by hand, with as many trials each, cell by cell."""
