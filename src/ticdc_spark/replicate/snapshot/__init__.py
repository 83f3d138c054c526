"""Full reads of tables, and how the changes join them. See ``docs/how-to/snapshots.md``."""
