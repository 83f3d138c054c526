"""The binlog's bytes: packets of a dump, events, what a table map holds."""
