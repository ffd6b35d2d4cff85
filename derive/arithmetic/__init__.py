"""Exact and enclosed arithmetic: polynomials, rational functions, rings, series, balls."""
