"""Attention, a chapter beyond the sources: which limits exist, and what holds at order 1/n; with
what J. Hron et al. (2020), S. Sakai et al., A. Cowsik et al. and B. Bordelon et al. know of it."""
