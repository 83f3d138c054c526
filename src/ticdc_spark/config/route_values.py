"""How the values of a ``[[route]]`` and of ``mask-salt`` are read. See ``values``."""

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeAlias

from ticdc_spark.config import toml as job_file
from ticdc_spark.config.layout import parse_partition, parse_sort
from ticdc_spark.config.row_filters import named_columns
from ticdc_spark.config.rules import parse_column_rules, regex
from ticdc_spark.config.secrets import remember
from ticdc_spark.config.target_names import SOURCE, group_names, is_target, may_have_groups, whole_name
from ticdc_spark.config.toml import NotAllowed, Reads
from ticdc_spark.errors import UsageError

_SALT = 16
"""The fewest characters of a salt."""


def _name_regex(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    try:
        regex(value, "it")
        regex(whole_name(value), "it")
    except UsageError as error:
        raise NotAllowed(f"{REGEX} ({error})") from error
    if taken := sorted({*SOURCE} & {*group_names(value)}):
        raise NotAllowed(
            f"groups with other names than {taken[0]!r}, which target-schema and target-table know already"
        )
    return value


def _target(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not may_have_groups(value):
        raise ValueError
    if value.casefold() == "_ticdc_spark":
        raise NotAllowed("a name that is not the job's own")
    return value


def _history_target(value: object) -> str:
    parts = value.split(".") if isinstance(value, str) else []
    if len(parts) != 2 or "{table}" not in parts[1] or not all(map(is_target, parts)):
        raise ValueError
    return ".".join(map(_target, parts))


def _columns(value: object) -> tuple[str, ...]:
    rules: list[Any] = value if isinstance(value, list) else [None]
    if not all(isinstance(rule, str) and rule[:1] not in ("", "#", "@") for rule in rules):
        raise ValueError
    _column_rules(rules)
    return tuple(rules)


def _column_rules(rules: Iterable[str]) -> None:
    try:
        parse_column_rules(tuple(rules))
    except UsageError as error:
        raise NotAllowed(f'names of columns, with wildcards as in "card_*" ({error})') from error


def _masks(value: object) -> tuple[tuple[str, str], ...]:
    pairs = _pairs(value)
    _column_rules(pattern for pattern, _ in pairs)
    if not all(re.fullmatch(r"hash|null|constant:.*", how, re.DOTALL) and one[0] != "!" for one, how in pairs):
        raise ValueError
    return pairs


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    if isinstance(value, dict) and all(isinstance(text, str) and key and text.strip() for key, text in value.items()):
        return tuple(value.items())
    raise ValueError


def _condition(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    try:
        named_columns(value)
    except UsageError as error:
        raise NotAllowed(f"a condition over columns, as SQL writes it ({error})") from error
    return value


def _origin(value: object) -> tuple[str, ...]:
    names: list[Any] = value if isinstance(value, list) else []
    texts = [name for name in names if isinstance(name, str) and name.strip() and name == name.strip()]
    if not 1 <= len(names) <= 2 or len({name.casefold() for name in texts}) != len(names):
        raise ValueError
    return tuple(texts)


def _partitions(value: object) -> tuple[str, ...]:
    return _parsed(value, parse_partition)


def _sorts(value: object) -> tuple[str, ...]:
    return _parsed(value, parse_sort)


def _parsed(value: object, parse: Callable[[str], object]) -> tuple[str, ...]:
    texts: list[Any] = value if isinstance(value, list) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError
    for text in texts:
        parse(text)
    return tuple(texts)


def _properties(value: object) -> tuple[tuple[str, str], ...]:
    found = job_file.flatten(value) if isinstance(value, dict) else {"": None}
    texts = {name: job_file.text_of(one) for name, one in found.items()}
    if any(text is None or "${" in text for text in texts.values()):
        raise ValueError
    return tuple((name, str(text)) for name, text in texts.items())


def _salt(value: object) -> str:
    if isinstance(value, str):
        remember(value)  # also a salt that is refused
        if len(value) >= _SALT:
            return value
    raise ValueError


TARGET = "a name, in which `{schema}` and `{table}` are the source's"
"""What ``target-schema`` and ``target-table`` may be."""
REGEX = "a regular expression of RE2 for the whole `schema.table`"
NameRegex: TypeAlias = Annotated[str, Reads(_name_regex, REGEX)]
Target: TypeAlias = Annotated[str, Reads(_target, TARGET)]
HistoryTarget: TypeAlias = Annotated[
    str, Reads(_history_target, 'a schema and a name with `{table}` in it, such as "{schema}.{table}_history"')
]
ColumnRules: TypeAlias = Annotated[
    tuple[str, ...], Reads(_columns, 'a list of columns such as "phone", "card_*", "!card_type"')
]
Masks: TypeAlias = Annotated[
    tuple[tuple[str, str], ...],
    Reads(_masks, 'columns, each with "hash", "null" or "constant:…": { email = "hash", "card_*" = "null" }'),
]
Renames: TypeAlias = Annotated[
    tuple[tuple[str, str], ...], Reads(_pairs, 'columns, each with its name in the target: { ctime = "created_at" }')
]
RowCondition: TypeAlias = Annotated[
    str, Reads(_condition, "a condition over columns, as SQL writes it: \"region = 'EU' AND amount >= 100\"")
]
Partitions: TypeAlias = Annotated[
    tuple[str, ...],
    Reads(_partitions, 'a list such as "days(created_at)", "bucket(16, id)", "truncate(4, name)", "region"'),
]
Sorts: TypeAlias = Annotated[
    tuple[str, ...], Reads(_sorts, 'a list of columns such as "id", "created_at desc nulls last"')
]
Properties: TypeAlias = Annotated[
    tuple[tuple[str, str], ...], Reads(_properties, 'properties without references: { "format-version" = 3 }')
]
Origin: TypeAlias = Annotated[
    tuple[str, ...],
    Reads(_origin, 'one or two new columns: ["_source_table"], or ["_source_schema", "_source_table"]'),
]
Salt: TypeAlias = Annotated[str, Reads(_salt, f"a text of {_SALT} characters at least", secret=True)]
