"""Random numbers and random matrices, the same on CPU and GPU."""
