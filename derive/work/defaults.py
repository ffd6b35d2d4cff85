"""Sizes of ensembles that are not given, shared by functions, commands and their help."""

DEPTH, WIDTH = 10, 100
DRAWS = 1000
MOST_DRAWS = 64 * DRAWS
"""Draws that are taken without being asked for, so that a comparison resolves its errors."""
