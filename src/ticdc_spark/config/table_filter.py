"""The job file's filter of tables: TiCDC's rules, ``shop.*``, ``!shop.tmp_*``, ``*.*``.

As in TiCDC, the last rule that matches decides, case does not matter, and an empty list accepts every table. Comments
and files of rules are refused.
"""

from collections.abc import Callable, Sequence

from ticdc_spark.config.matcher import Matcher
from ticdc_spark.config.rules import parse_rules
from ticdc_spark.config.toml import NotAllowed
from ticdc_spark.errors import UsageError


def read_patterns(value: object) -> tuple[str, ...]:
    """Check a list of rules. Raises: ValueError."""
    if not isinstance(value, list) or not all(isinstance(rule, str) for rule in value):
        raise ValueError
    table_filter(value)
    return tuple(value)


def table_filter(rules: Sequence[str]) -> Callable[[str, str], bool]:
    """Compile rules to ``wanted(schema, table)``. Raises: ValueError."""
    if any(rule.strip(" \t")[:1] in ("", "#", "@") for rule in rules):
        raise ValueError
    try:
        matcher = Matcher(parse_rules(rules), case_sensitive=False)
    except UsageError as error:
        raise NotAllowed(f'TiCDC filter rules, such as "shop.*" and "!shop.tmp_*" ({error})') from error
    return matcher.matches if rules else _every


def _every(_schema: str, _table: str) -> bool:
    return True
