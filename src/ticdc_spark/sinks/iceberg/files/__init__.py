"""The files of a table: live files, the places of keys, and files written by tasks."""
