"""Speed of the real device: on a CPU beside transformers, of the host's part of a step, and on a GPU."""
