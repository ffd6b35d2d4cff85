"""Depth in proportion to width, a chapter beyond the sources: the laws of B. Hanin and M. Nica
(2020), of M. B. Li, M. Nica and D. M. Roy (2022) and of L. Noci et al. (2023), and an open question
of source 000."""
