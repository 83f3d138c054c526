"""Sources of changes: a MySQL-compatible server's binlog, a snapshot of its tables, a topic of another changefeed."""
