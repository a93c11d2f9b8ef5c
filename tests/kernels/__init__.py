"""Kernels against plain formulas, and Triton kernels against their references."""
