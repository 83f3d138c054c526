"""Notices: a webhook or a program is notified of a new state of a job or its tables."""
