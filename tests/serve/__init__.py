"""The HTTP server, its clients and its traces."""
