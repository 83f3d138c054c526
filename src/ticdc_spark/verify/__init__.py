"""Compares the tables of a job with their source: counts and checksums of ranges of keys, then rows."""
