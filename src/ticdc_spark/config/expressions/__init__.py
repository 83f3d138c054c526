"""SQL value expressions, of event filters and of rules for rows: MySQL's semantics over canonical values."""

from ticdc_spark.config.expressions.compile import (
    columns_of,
    compile_condition,
    depends_on_server,
    parse_expression,
    with_columns,
)

__all__ = ["columns_of", "compile_condition", "depends_on_server", "parse_expression", "with_columns"]
