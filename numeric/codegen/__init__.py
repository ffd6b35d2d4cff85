"""Derived recursions as standalone modules, in Python and in C."""
