"""Training: descent as a sum over trees of derivatives, and what it makes of a network's outputs."""
