"""Change data capture for TiDB and MySQL on Spark."""
