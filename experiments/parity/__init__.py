"""`schedlab parity`: the same workload on a real device and on the simulated one, decision by decision."""
