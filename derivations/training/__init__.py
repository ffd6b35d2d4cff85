"""Trained networks, a chapter beyond the sources: what descent makes of an ensemble's predictions
at order 1/n, and what source 000 leaves to future work of it."""
