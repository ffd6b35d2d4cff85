"""Trained networks: what theory says of them at order 1/n."""
