"""Requests drawn from distributions: arrival processes, length models and the traces made of both."""
