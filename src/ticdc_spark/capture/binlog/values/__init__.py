"""Cells of row events to canonical values."""
