"""A server's run as its scheduler saw it, to be played again tick by tick."""
