"""Gaussian brackets by quadrature or in closed form: the rules, and source of kernels."""
