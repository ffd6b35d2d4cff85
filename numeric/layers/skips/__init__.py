"""Skips around one matrix: recursions that close on functions of the z of one neuron."""
