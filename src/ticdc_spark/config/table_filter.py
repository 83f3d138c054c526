"""TiCDC's filter rules over tables: ``shop.*``, ``!shop.tmp_*``, ``*.*``; the last rule that matches decides."""

import re
from collections.abc import Callable, Sequence

# A name in back quotes, or one in which *, ? and [a-z] are wild.
_NAME = r"(?:`(?:[^`]|``)+`|(?:[\w$*?\-]|\[!?[^\]]+\]|[^\x00-\x7f])+)"
_RULE = re.compile(rf"(?P<no>!?)(?P<schema>{_NAME})\.(?P<table>{_NAME})")


def read_patterns(value: object) -> tuple[str, ...]:
    """Check a list of rules. Raises: ValueError."""
    if not isinstance(value, list) or not all(isinstance(rule, str) and _RULE.fullmatch(rule) for rule in value):
        raise ValueError
    return tuple(value)


def table_filter(rules: Sequence[str]) -> Callable[[str, str], bool]:
    """Compile rules to ``wanted(schema, table)``; no rules want every table. Case does not matter, as in TiCDC."""
    compiled = []
    for rule in rules:
        match = _RULE.fullmatch(rule)
        if match is None:
            raise ValueError(rule)
        compiled.append((not match["no"], _name(match["schema"]), _name(match["table"])))

    def wanted(schema: str, table: str) -> bool:
        for wants, schemas, tables in reversed(compiled):
            if schemas.fullmatch(schema) and tables.fullmatch(table):
                return wants
        return not compiled

    return wanted


def _name(text: str) -> re.Pattern[str]:
    if text.startswith("`"):
        return re.compile(re.escape(text[1:-1].replace("``", "`")), re.IGNORECASE)
    parts = re.findall(r"\[!?[^\]]+\]|.", text, re.DOTALL)
    return re.compile("".join(map(_wild, parts)), re.IGNORECASE | re.DOTALL)


def _wild(part: str) -> str:
    if part.startswith("["):
        return "[" + part[1:-1].replace("\\", "\\\\").replace("!", "^", 1) + "]" if part[1] == "!" else part
    return {"*": ".*", "?": "."}.get(part, re.escape(part))
