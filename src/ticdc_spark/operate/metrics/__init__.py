"""Metrics of a running job for Prometheus, and whether it is well."""
