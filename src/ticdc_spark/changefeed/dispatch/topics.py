"""Topic rules: an expression with ``{schema}`` and ``{table}`` gives the topic of a table."""

from __future__ import annotations

import re

import msgspec

from ticdc_spark.errors import UsageError

MAX_TOPIC_BYTES = 249
"""Kafka's limit for a topic's name."""

_FIXED = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_EXPRESSION = re.compile(r"[A-Za-z0-9._-]*(\{schema\})?([A-Za-z0-9._-]*\{table\})?[A-Za-z0-9._-]*", re.ASCII)
_BOTH = re.compile(r"[A-Za-z0-9._-]*\{schema\}[A-Za-z0-9._-]*\{table\}[A-Za-z0-9._-]*", re.ASCII)
_FORBIDDEN = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)


class TopicRule(msgspec.Struct, frozen=True):
    """A compiled topic rule."""

    expression: str
    dynamic: bool
    """Whether the topic depends on the table."""

    def topic(self, schema: str, table: str) -> str:
        """The topic of a table. Different tables may have the same one, as in TiCDC.

        Each character of a name that Kafka forbids becomes ``_``; a result that is too long is cut.
        """
        if not self.dynamic:
            return self.expression
        name = self.expression.replace("{schema}", _FORBIDDEN.sub("_", schema))
        name = name.replace("{table}", _FORBIDDEN.sub("_", table))
        if len(name) > MAX_TOPIC_BYTES:
            return name[:MAX_TOPIC_BYTES]
        return {".": "_", "..": "__"}.get(name, name)


def is_expression(rule: str) -> bool:
    """Whether a topic rule has placeholders, and ``compile_topic`` accepts it for topics with many tables."""
    return "{" in rule and _EXPRESSION.fullmatch(rule) is not None


def compile_topic(rule: str, default: str, *, one_table: bool) -> TopicRule:
    """Compile a topic rule; ``""`` is the topic of the sink URI, ``default``.

    ``one_table``: a topic may have only one table (Avro with a registry), so an expression needs both placeholders.
    Raises: UsageError.
    """
    if not rule:
        return TopicRule(default, dynamic=False)
    if _FIXED.fullmatch(rule):
        if rule in (".", "..") or len(rule) > MAX_TOPIC_BYTES:
            raise UsageError(f"topic {rule!r}: Kafka allows 1 to {MAX_TOPIC_BYTES} characters, and neither . nor ..")
        return TopicRule(rule, dynamic=False)
    if one_table and not _BOTH.fullmatch(rule):
        raise UsageError(
            f"topic {rule!r}: a topic may carry only one table with this protocol; an expression needs {{schema}} and "
            "{table}, in this order, with letters, digits and . _ - around them"
        )
    if not _EXPRESSION.fullmatch(rule):
        raise UsageError(
            f"topic {rule!r}: allowed are letters, digits and . _ - and, in this order and once each, {{schema}} "
            "and {table}"
        )
    return TopicRule(rule, dynamic=True)
