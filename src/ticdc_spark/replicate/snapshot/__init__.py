"""Full reads of tables, and how changes are applied on top. See ``docs/how-to/snapshots.md``."""
