"""Names of tables in a target: ``target-schema`` and ``target-table``, with ``{schema}`` and ``{table}``.

They are TiCDC's, for table routing (v8.5.7). A changefeed and a job read them in the same way.
"""

import re
from functools import lru_cache

from ticdc_spark.model import TableName

_EXPRESSION = re.compile(r"(?:[^{}]|\{schema\}|\{table\})*")


def is_target(expression: str) -> bool:
    """Whether ``target-schema`` or ``target-table`` may have this value: text, ``{schema}`` and ``{table}``."""
    return _EXPRESSION.fullmatch(expression) is not None


def named(expression: str, name: TableName) -> str:
    """The name that an expression gives to a part of a table's name."""
    return expression.replace("{schema}", name[0]).replace("{table}", name[1])


def is_named(expressions: tuple[str, str], target: TableName) -> bool:
    """Whether some table can get the name ``target`` by these expressions for its schema and its name."""
    return all(_pattern(one).fullmatch(part) is not None for one, part in zip(expressions, target, strict=True))


@lru_cache(256)
def _pattern(expression: str) -> re.Pattern[str]:
    texts = map(re.escape, re.split(r"\{schema\}|\{table\}", expression))
    return re.compile("(?:.+)".join(texts), re.DOTALL)
