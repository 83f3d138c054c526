"""Sends a stream's backlog in Spark tasks, which open, read, filter, dispatch, encode and produce its messages."""
