"""What a changefeed sends: tables, events and columns."""
