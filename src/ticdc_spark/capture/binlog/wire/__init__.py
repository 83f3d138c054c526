"""The binlog's bytes: packets of a dump, events, table maps."""
