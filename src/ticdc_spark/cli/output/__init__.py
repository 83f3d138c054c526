"""What commands print: log lines, progress, events, numbers."""
