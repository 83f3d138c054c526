"""What the SQL of a DDL does to tables.

Used for protocols that carry only SQL (Open, canal-json), for schema files, and for what two schemas do not show
(Simple: whether a column was renamed or replaced).
"""

from ticdc_spark.ddl.defaults import is_moment
from ticdc_spark.ddl.dialect import Dialect, NameCase, Server, clarified
from ticdc_spark.ddl.effect import (
    Altered,
    Charsets,
    DdlEffect,
    Kind,
    MovedRows,
    apply_change,
    apply_ddl,
    charsets_after,
    classify,
    fold,
    parse_create,
)
from ticdc_spark.ddl.names import (
    Comments,
    change_tables,
    column_renames,
    computed_columns,
    ddl_tables,
    replaced_columns,
    written_comments,
)
from ticdc_spark.ddl.parse import unknown_part
from ticdc_spark.ddl.references import statement_of
from ticdc_spark.ddl.statements import Charset

__all__ = [
    "Altered",
    "Charset",
    "Charsets",
    "Comments",
    "DdlEffect",
    "Dialect",
    "Kind",
    "MovedRows",
    "NameCase",
    "Server",
    "apply_change",
    "apply_ddl",
    "change_tables",
    "charsets_after",
    "clarified",
    "classify",
    "column_renames",
    "computed_columns",
    "ddl_tables",
    "fold",
    "is_moment",
    "parse_create",
    "replaced_columns",
    "statement_of",
    "unknown_part",
    "written_comments",
]
