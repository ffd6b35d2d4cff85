"""Densities of layers with several branches, gates and nested skips: M by a system of equations."""
