"""Figures and diagrams as small SVG, with their numbers."""
