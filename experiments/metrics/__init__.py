"""Observers that turn the events of a run into tables and figures."""
