"""The status page of a job and of a changefeed: one description of what it shows, and one renderer."""
