"""Workloads: readers, writers, generators and transforms of request traces."""
