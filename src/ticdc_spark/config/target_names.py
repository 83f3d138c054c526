"""Names of tables in a target: ``target-schema`` and ``target-table``, with ``{schema}`` and ``{table}``.

They are TiCDC's, for table routing (v8.5.7). A changefeed and a job read them in the same way. A job's may also have
groups of a regular expression.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ticdc_spark.config.rules import compiled_regex
from ticdc_spark.model import TableName

SOURCE = ("schema", "table")
"""What ``{…}`` may always name."""
_EXPRESSION = re.compile(r"(?:[^{}]|\{schema\}|\{table\})*")
_WITH_GROUPS = re.compile(r"(?:[^{}]|\{\w+\})*")
_BRACES = re.compile(r"\{(\w+)\}")
_NONE: Mapping[str, str] = MappingProxyType({})


def is_target(expression: str) -> bool:
    """Whether ``target-schema`` or ``target-table`` may have this value: text, ``{schema}`` and ``{table}``."""
    return _EXPRESSION.fullmatch(expression) is not None


def may_have_groups(expression: str) -> bool:
    """Whether it is text, ``{schema}``, ``{table}`` and groups, by name or number."""
    return _WITH_GROUPS.fullmatch(expression) is not None


def names_in(expression: str) -> tuple[str, ...]:
    """What is named in braces."""
    return tuple(_BRACES.findall(expression))


def named(expression: str, name: TableName, groups: Mapping[str, str] = _NONE) -> str:
    """The name that an expression gives to a part of a table's name. ``groups``: of a regular expression."""
    values = {**groups, **dict(zip(SOURCE, name, strict=True))}
    return _BRACES.sub(lambda found: values.get(found[1], found[0]), expression)


def group_names(regex: str) -> tuple[str, ...]:
    """The groups of a regular expression: the name of each, or its number."""
    of: Any = compiled_regex(regex)
    names = {at: name for name, at in of.groupindex.items()}
    return tuple(names.get(at, str(at)) for at in range(1, of.groups + 1))


def whole_name(regex: str) -> str:
    """The expression as it is matched: with the whole ``schema.table``, in any case."""
    return f"(?i)^(?:{regex})$"


def groups_of(regex: str, name: TableName) -> Mapping[str, str] | None:
    """What the groups of a regular expression have of ``schema.table``, by number and by name; ``None``: it is not for
    this table. Case does not matter, and groups keep the letters of the name."""
    found: Any = compiled_regex(whole_name(regex)).search(".".join(name))
    if found is None:
        return None
    numbered = {str(at): text for at, text in enumerate(found.groups(), 1)}
    return {group: text or "" for group, text in {**numbered, **found.groupdict()}.items()}


def is_named(expressions: tuple[str, str], target: TableName) -> bool:
    """Whether some table can get the name ``target`` by these expressions for its schema and its name."""
    return all(_pattern(one).fullmatch(part) is not None for one, part in zip(expressions, target, strict=True))


@lru_cache(256)
def _pattern(expression: str) -> re.Pattern[str]:
    parts = enumerate(_BRACES.split(expression))
    # Every second part was in braces. Only a group may be empty.
    found = (re.escape(part) if at % 2 == 0 else "(?:.+)" if part in SOURCE else "(?:.*)" for at, part in parts)
    return re.compile("".join(found), re.DOTALL)
