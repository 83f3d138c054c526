"""Metrics of a running job for Prometheus, and its health."""
