"""What the SQL of a DDL does to tables.

For the protocols that carry only SQL (Open, canal-json), for schema files, and for what two schemas cannot tell
(Simple: whether a column was renamed or replaced).
"""

from ticdc_spark.ddl.names import TableName, column_renames, ddl_tables

__all__ = ["TableName", "column_renames", "ddl_tables"]
