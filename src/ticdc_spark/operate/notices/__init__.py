"""Notices: a webhook or a program hears of a new state of a job, or of its tables."""
