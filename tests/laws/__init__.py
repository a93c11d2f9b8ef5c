"""For each law an example that breaks it, and nothing else."""
