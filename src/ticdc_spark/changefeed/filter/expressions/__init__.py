"""The SQL value expressions of event filters: MySQL's semantics over canonical values."""

from ticdc_spark.changefeed.filter.expressions.compile import compile_condition

__all__ = ["compile_condition"]
