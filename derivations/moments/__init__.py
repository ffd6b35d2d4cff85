"""Averages by other ways than the engine's: normal polynomials, grids, moments of any order; and
the laws of deep linear networks."""
