"""Models of other frameworks: read, and judged."""
