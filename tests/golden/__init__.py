"""Event logs of runs that must stay what they are, byte for byte, and what they mean in words."""
