"""Where a protocol's vectors and this package differ on purpose: rules with their reasons, and nothing else.

A golden test collects ``Difference``s and fails for each that no rule allows; another fails for a rule that no
difference needs any more. Nothing is skipped without a rule.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ticdc_spark.wire.compression import unpack


@dataclass(frozen=True)
class Difference:
    """Something that is not as it was expected."""

    what: str
    """value, type, bytes, message, table, row …"""
    where: str
    """``<case>-<config>/<schema>.<table>.<column>``, as far as it goes."""
    actual: Any
    expected: Any


@dataclass(frozen=True)
class Rule:
    """Allows the differences of one kind, at places of one pattern, for which ``allows`` holds."""

    protocol: str
    what: str
    where: str
    """An fnmatch pattern."""
    reason: str
    allows: Callable[[Any, Any], bool]

    def explains(self, protocol: str, difference: Difference) -> bool:
        return (
            self.protocol == protocol
            and self.what == difference.what
            and fnmatchcase(difference.where, self.where)
            and self.allows(difference.actual, difference.expected)
        )


def unexplained(protocol: str, differences: Iterable[Difference]) -> list[Difference]:
    """The differences that no rule allows."""
    return [found for found in differences if not any(rule.explains(protocol, found) for rule in RULES)]


def unneeded(protocol: str, differences: Iterable[Difference]) -> list[str]:
    """The reasons of the rules that none of the differences needs."""
    differences = list(differences)
    rules = [rule for rule in RULES if rule.protocol == protocol]
    return [rule.reason for rule in rules if not any(rule.explains(protocol, found) for found in differences)]


def with_replacement(raw: bytes) -> str:
    """What Go's encoding/json leaves of bytes that are not UTF-8: U+FFFD for each bad byte."""
    text = raw.decode("utf-8", "surrogateescape")
    return "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in text)


def _without_flag(image: bytes, flag: int) -> bytes:
    """An Open image whose columns' flags (``"f"``) lack this one."""
    return re.sub(rb'"f":(\d+)', lambda found: b'"f":%d' % (int(found[1]) & ~flag), image)


def _without_nulls_as_defaults(message: bytes, ours: bytes) -> Any:
    """A Debezium message whose images have null where ours have it."""
    sent = json.loads(message)
    for which in ("before", "after"):
        image = json.loads(ours)["payload"].get(which) or {}
        for name in (name for name, cell in image.items() if cell is None):
            sent["payload"][which][name] = None
    return sent


RULES = [
    Rule(
        "debezium-avro encode",
        "value",
        "ticdc-smoke-debezium-avro/smk.a.v",
        "a NULL in a column that has a default is sent as null here, and as the default by TiCDC",
        lambda actual, expected: actual is None and expected == "q",
    ),
    Rule(
        "debezium encode",
        "bytes",
        "tiflow-types_*/types_all.t_nulldef",
        "a NULL in a column that has a default is sent as null here, and as the default by TiCDC",
        lambda actual, expected: json.loads(actual) == _without_nulls_as_defaults(expected, actual),
    ),
    Rule(
        "debezium encode",
        "bytes",
        "tiflow-odd-*/odd db.1.vals",
        "bytes that are not UTF-8 in a text column are U+FFFD each here, where TiCDC's message is no JSON",
        lambda actual, expected: actual == with_replacement(expected).encode(),
    ),
    Rule(
        "debezium encode",
        "ddl",
        "tiflow-*",
        "a schema does not have AUTO_INCREMENT: it is sent only of the columns that the statement itself defines",
        lambda actual, expected: (
            expected.replace(b'"autoIncremented":true,"generated":true', b'"autoIncremented":false,"generated":false')
            == actual
        ),
    ),
    Rule(
        "debezium encode",
        "ddl",
        "tiflow-ddl_all-*/ddl1.a",
        "a schema does not have a column's comment",
        lambda actual, expected: (
            re.sub(rb'("nativeType":null,"comment":)"(?:[^"\\]|\\.)*"', rb"\1null", expected) == actual
        ),
    ),
    Rule(
        "debezium",
        "value",
        "*/*.*",
        "a NULL in a column that has a default was sent as the default, and cannot be distinguished from a value",
        lambda actual, expected: expected is None and actual is not None,
    ),
    Rule(
        "debezium",
        "value",
        "*/*.*",
        "a zero date was sent as null, or as the epoch where the column is NOT NULL or a TIMESTAMP",
        lambda actual, expected: (
            str(expected).startswith("0000-00-00") and (actual is None or actual.startswith("1970-01-01"))
        ),
    ),
    Rule(
        "debezium",
        "value",
        "*/*.*",
        "years below 70 were sent 2000 years later, those below 100 1900 years later",
        lambda actual, expected: (
            re.match(r"00\d\d-\d\d-\d\d", str(expected)) is not None
            and actual == f"{int(expected[:4]) + (2000 if expected < '0070' else 1900)}{expected[4:]}"
        ),
    ),
    Rule(
        "debezium",
        "value",
        "*/*.*",
        "a DECIMAL was sent as a double, which holds some 16 digits",
        lambda actual, expected: (
            re.fullmatch(r"-?[\d.]{16,}", str(expected)) is not None and float(actual) == float(expected)
        ),
    ),
    Rule(
        "debezium tables",
        "value",
        "*/*.*",
        "without tidb_type a block does not distinguish bytes from text: they stay base64",
        lambda actual, expected: isinstance(expected, bytes) and b64decode(actual) == expected,
    ),
    Rule(
        "debezium tables",
        "value",
        "*/*.*",
        "without tidb_type a block does not distinguish BIGINT UNSIGNED from BIGINT: from 2^63 on it is negative",
        lambda actual, expected: int(actual) < 0 and int(actual) + (1 << 64) == int(expected),
    ),
    Rule(
        "debezium tables",
        "columns",
        "*/*.*",
        "tableChanges leaves out the hidden columns of an index's expressions",
        lambda actual, expected: [name for name in expected if not name.startswith("_V$_")] == actual,
    ),
    Rule(
        "debezium tables",
        "type",
        "*/*.c_decimal_u",
        "tableChanges does not show that a DECIMAL is UNSIGNED",
        lambda actual, expected: repr(actual) == repr(expected).replace("unsigned=True", "unsigned=False"),
    ),
    Rule(
        "debezium tables",
        "default",
        "tiflow-types_shanghai-*/*.*",
        "tableChanges has a TIMESTAMP's default as it was written: in the session's zone, which is not sent",
        lambda actual, expected: (actual[:10], expected[:10]) == ("2021-05-06", "2021-05-05"),
    ),
    Rule(
        "simple",
        "value",
        "tiflow-odd-*/odd db.1.vals.*",
        "bytes that are not UTF-8 in a text column are lost on the wire: each became U+FFFD",
        lambda actual, expected: isinstance(expected, bytes) and actual == with_replacement(expected),
    ),
    Rule(
        "simple",
        "type",
        "*",
        "the scale of FLOAT(M,D) and DOUBLE(M,D) is not sent",
        lambda actual, expected: actual in ("float", "double") and expected.startswith(actual + "("),
    ),
    Rule(
        "simple",
        "bytes",
        "*-simple_json_lz4/*",
        "an lz4 frame depends on who compresses: another library's frame holds the same message",
        lambda actual, expected: actual[:4] == expected[:4] and unpack(actual) == unpack(expected),
    ),
    Rule(
        "open",
        "value",
        "tiflow-odd-*/odd db.1.vals.v",
        "bytes that are not UTF-8 in a VARCHAR are lost on the wire: each became U+FFFD (TEXT keeps them, in base64)",
        lambda actual, expected: isinstance(expected, bytes) and actual == with_replacement(expected),
    ),
    Rule(
        "open",
        "key",
        "tiflow-*",
        "`rid` is TiDB's hidden row id for a table without an integer clustered key; a row change does not carry it",
        lambda actual, expected: b'"rid"' not in actual and re.sub(rb'"rid":-?\d+,', b"", expected) == actual,
    ),
    Rule(
        "open",
        "messages",
        "tiflow-keys-*",
        "where the limit is small, keys without `rid` leave room for one event more",
        lambda actual, expected: len(actual) <= len(expected) and sum(actual) == sum(expected),
    ),
    Rule(
        "open",
        "bytes",
        "tiflow-keys*/keys_db.k_fk_child",
        "TiDB does not flag (32) the column of an index that a foreign key brought; a schema does not show it",
        lambda actual, expected: _without_flag(actual, 32) == expected,
    ),
    Rule(
        "checksum",
        "checksum",
        "tiflow-types_checksum-*/types_all.t_json",
        "TiCDC marks rows as corrupted whose JSON holds a date or a time: TiDB's checksum is of another text of it",
        lambda actual, expected: expected.checksum.corrupted,
    ),
    Rule(
        "checksum",
        "checksum",
        "tiflow-types_checksum-avro_*/types_all.t_enum",
        "Avro sends a SET by its names, so that none and a member '' look the same",
        lambda actual, expected: expected.op == "insert" and "checksum is" in actual,
    ),
    Rule(
        "checksum",
        "checksum",
        "tiflow-odd-simple_json_checksum/odd db.1.vals",
        "bytes that are not UTF-8 in a text column are lost on the wire, and its checksum shows it",
        lambda actual, expected: "checksum is" in actual,
    ),
    Rule(
        "canal-json",
        "value",
        "tiflow-odd-*/odd db.1.vals.*",
        "bytes that are not UTF-8 in a text column are lost on the wire: each became U+FFFD",
        lambda actual, expected: isinstance(expected, bytes) and actual == with_replacement(expected),
    ),
    Rule(
        "avro",
        "row",
        "ticdc-nokey-*",
        "the new architecture's keys are primary keys only: without one, a delete does not identify its row",
        lambda actual, expected: "delete without a key" in actual.reason and expected.op == "delete",
    ),
    Rule(
        "avro",
        "columns",
        "ticdc-nokey-*",
        "the new architecture registers virtual columns too; in rows they are null",
        lambda actual, expected: actual > expected,
    ),
    Rule(
        "avro",
        "column",
        "ticdc-nokey-*",
        "the new architecture registers virtual columns too; in rows they are null",
        lambda actual, expected: expected is None,
    ),
    Rule(
        "ddl",
        "type",
        "tiflow-types_*/types_all.t_gbk.e",
        "TiCDC's text loses the CHARACTER SET of an ENUM column",
        lambda actual, expected: actual.elements == expected.elements and expected.charset == "gbk",
    ),
    Rule(
        "ddl",
        "default",
        "tiflow-types_*/types_all.t_nulldef.j2",
        "TiDB keeps an expression in lower case; nothing evaluates it here",
        lambda actual, expected: actual.lower() == expected,
    ),
    Rule(
        "ddl",
        "default",
        "tiflow-types_shanghai/types_all.t_*",
        "TiDB keeps a TIMESTAMP default in UTC; the text has it in the session's time zone, which it does not have",
        lambda actual, expected: (actual[:19], expected[:19]) == ("2021-05-06 07:08:09", "2021-05-05 23:08:09"),
    ),
    Rule(
        "ddl",
        "default",
        "*.*.*",
        "TiDB gives YEAR NOT NULL without a default the default 0000",
        lambda actual, expected: actual is None and expected == "0000",
    ),
    Rule(
        "ddl",
        "indexes",
        "tiflow-ddl_all/ddl1.q4",
        "TiDB prints expressions of an index with blanks",
        lambda actual, expected: str(actual).replace(" ", "") == str(expected).replace(" ", ""),
    ),
    *(
        Rule(
            "ddl",
            what,
            "tiflow-ddl_all/ddl1.no_key",
            "CREATE TABLE was not sent: the table had no key then",
            lambda actual, expected: actual is None or "is not known" in actual,
        )
        for what in ("table", "final table", "unsupported")
    ),
    Rule(
        "ddl",
        "table",
        "tiflow-ddl_all/ddl_drop.t",
        "the bootstrap is sent again, after the table's database was dropped",
        lambda actual, expected: actual is None and expected == "bootstrap",
    ),
]
