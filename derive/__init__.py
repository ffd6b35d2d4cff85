"""Symbols: what is true of random deep networks, derived with sympy."""
