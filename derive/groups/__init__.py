"""Averages over O(n), U(n) and Sp(n): pairings, Weingarten functions, moments, traces."""
