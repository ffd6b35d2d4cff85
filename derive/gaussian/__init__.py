"""Gaussian averages of activations: symbols, enclosures, series, fast quadrature."""
