"""Layers, a chapter beyond the sources: norms, residual blocks and gates, at finite width and
depth; with what D. Doshi, T. He and A. Gromov (arXiv 2111.12143) and G. Yang and S. S. Schoenholz
(2017) know at infinite width."""
