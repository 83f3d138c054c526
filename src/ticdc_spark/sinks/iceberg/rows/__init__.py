"""Writes rows to tables: tasks write row deltas, or Spark writes the rows."""
