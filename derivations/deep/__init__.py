"""Depth in proportion to width, a chapter beyond the sources: the laws of B. Hanin and M. Nica
(2020) and of M. B. Li, M. Nica and D. M. Roy (2022), and an open question of source 000."""
