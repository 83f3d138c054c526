"""Names of tables in a target: ``target-schema`` and ``target-table``, with ``{schema}`` and ``{table}``.

As TiCDC has them for table routing (v8.5.7). A changefeed and a job read them alike.
"""

import re

from ticdc_spark.model import TableName

_EXPRESSION = re.compile(r"(?:[^{}]|\{schema\}|\{table\})*")


def is_target(expression: str) -> bool:
    """Whether ``target-schema`` or ``target-table`` may have this value: text, ``{schema}`` and ``{table}``."""
    return _EXPRESSION.fullmatch(expression) is not None


def named(expression: str, name: TableName) -> str:
    """The name that an expression gives to a part of a table's name."""
    return expression.replace("{schema}", name[0]).replace("{table}", name[1])
