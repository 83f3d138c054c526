"""The backlog of a stream, sent in Spark tasks: opened, read, filtered, dispatched, encoded and produced there."""
