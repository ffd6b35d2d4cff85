"""Source 001: T. Nait Saada, J. Tanner, "On the initialisation of wide low-rank feedforward neural
networks" (2023). One module for each of its themes: the maps, the biases, the depth scales, the
gradients, the spectra of Jacobians, and the figures."""
