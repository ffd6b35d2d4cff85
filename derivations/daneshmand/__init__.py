"""Source 003: H. Daneshmand, A. Joudaki, F. Bach, "Batch Normalization Orthogonalizes
Representations in Deep Random Networks" (2021)."""
