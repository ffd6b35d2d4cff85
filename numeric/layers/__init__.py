"""Recursions run down the layers in NumPy: no compiler to wait for."""
