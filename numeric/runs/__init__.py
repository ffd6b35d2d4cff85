"""Chunks computed anywhere, kept in a directory, resumed and extended."""
