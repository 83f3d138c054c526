"""Full reads of tables: of a database, or of a dump."""
