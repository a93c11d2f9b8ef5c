"""Cost models of the simulated device: how long a step takes, in exact integer time."""
