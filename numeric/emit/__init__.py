"""Python source of kernels: printed, written, loaded, and every option of numba."""
