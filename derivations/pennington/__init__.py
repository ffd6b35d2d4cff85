"""Source 002: J. Pennington, S. S. Schoenholz, S. Ganguli, "The emergence of spectral universality
in deep networks" (2018), with its supplement; and §3, A.10, A.11 of source 001 (low rank)."""
