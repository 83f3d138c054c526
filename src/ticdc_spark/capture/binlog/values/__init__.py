"""Converts cells of row events to canonical values."""
