"""How rows come into tables: by tasks that write row deltas, or by Spark."""
