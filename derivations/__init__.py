"""The book: every result of the sources, derived, evaluated and checked; the command line."""
