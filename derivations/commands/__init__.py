"""The commands of `wickgarten`, a module for each."""
