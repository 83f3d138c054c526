"""What a changefeed sends: which tables, which of their events, and which columns."""
