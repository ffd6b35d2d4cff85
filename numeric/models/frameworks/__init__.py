"""Models of other frameworks, a file for each: imported only where the framework already is."""
