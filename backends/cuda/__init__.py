"""The real device: torch, with Triton kernels on a GPU and their references on a CPU. Needs the extra `serve`."""
