"""Triton kernels beside their torch references. The simulated device needs none."""
