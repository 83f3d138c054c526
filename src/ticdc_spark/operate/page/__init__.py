"""The status page of a job or a changefeed: a description of its content, and its renderer."""
