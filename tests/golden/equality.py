"""What of a database's tables each protocol cannot bring back: one rule, one reason. Nothing else may differ.

Places read ``<case>-<configuration>:<mode>/<schema>.<table>``; a cell's has its column behind that. Cells also fall
under the rules for values of ``exceptions.py``, which hold for the protocol's messages anyway. Differences are:

- ``row``: one that is there and should not be (``expected`` is None), or the other way round (``actual`` is None)
- ``unknown``: columns of a row that no message had; ``value``: a cell; ``table``; ``reject``: its reason
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.golden.exceptions import RULES, Difference, Rule


def _rule(what: str, where: str, reason: str, allows: Callable[[Any, Any], bool] = lambda *_: True) -> Rule:
    return Rule("reference", what, where, reason, allows)


def _there(actual: Any, expected: Any) -> bool:
    return expected is None


def _not_there(actual: Any, expected: Any) -> bool:
    return actual is None


_MOVED = "DROP, TRUNCATE and EXCHANGE PARTITION move and remove rows without row messages"
_NO_OLD = "without old values, an update of a table without a handle key does not show which row it replaces"
_NO_KEY = "the new architecture's Avro keys are primary keys only: without one, a delete does not identify its row"
_RAW_KEY = "an update that changes the key (output-raw-change-event) does not have the old one in Avro: its row stays"
_NO_DDL = "Avro has no DDL: "

EQUALITY = [
    _rule(
        "row",
        "tiflow-ddl_all-*/ddl1.no_key",
        "the table had no handle key yet when the row came; TiCDC never sends it",
        lambda actual, expected: actual is None and expected == {"a": "1", "b": "1", "c": None},
    ),
    *(_rule(what, f"tiflow-ddl_all-*/ddl1.{table}", _MOVED) for what, table in (("row", "pr"), ("row", "ex"))),
    *(_rule("value", f"tiflow-ddl_all-*/ddl1.{table}.v", _MOVED) for table in ("pr", "ex")),
    _rule(
        "row",
        "*/*.*",
        "rows that are equal in a table without a handle key cannot be distinguished, and are there once",
        lambda actual, expected: actual is None and "twice" in expected,
    ),
    _rule(
        "row",
        "ticdc-nokey-*/nokey.only_uk",
        "while the table had no handle key, one of two equal rows was deleted, and both went",
        lambda actual, expected: actual is None and expected == {"a": "1", "b": "dup", "c": "77"},
    ),
    _rule(
        "row",
        "ticdc-smoke-*:watermark/smk.a",
        "the recording's last watermark equals the last commit_ts, which therefore is not resolved",
        lambda actual, expected: expected is None and str(actual["id"]) == "8",
    ),
    _rule(
        "table",
        "ticdc-nokey-*:watermark/nokey.heap_dup",
        "the recording's last watermark equals the commit_ts of the last DDL, a DROP, which therefore is not resolved",
        lambda actual, expected: actual and not expected,
    ),
    _rule(
        "row",
        "ticdc-nokey-open-updatedonly:watermark/nokey.uk_nullable",
        "only-output-updated-columns with handle keys only stops at a table without one: that delete was not sent",
        _there,
    ),
    _rule(
        "unknown",
        "*_handle_key:watermark/*",
        "a large row was sent as its handle key only: what else it holds is in the source alone",
        lambda actual, expected: not actual,
    ),
    _rule(
        "row",
        "tiflow-types_*-avro*/types_all.t_enum",
        "TiCDC cannot encode the ENUM value 0 in Avro, and never sent the row",
        lambda actual, expected: actual is None and expected["e"] == "",
    ),
    *(
        _rule("row", f"tiflow-keys_force-*no_old_value:*/keys_db.{name}", _NO_OLD, _there)
        for name in ("k_none", "k_unique_null")
    ),
    _rule("row", "tiflow-keys_raw-avro*/keys_db.*", _RAW_KEY, _there),
    # ---- Avro: names
    *(
        _rule(
            what,
            f"tiflow-odd-avro*/odd_db_1.{name}",
            "two names that Avro writes alike: TiCDC refuses the row, or two tables fall together",
            lambda actual, expected: True,
        )
        for what, name in (("row", "_"), ("value", "_._"), ("row", "a_b"), ("row", "_9"), ("table", "_9"))
    ),
    # ---- Avro: no key
    _rule("reject", "ticdc-nokey-avro*", _NO_KEY, lambda actual, expected: "a delete without a key" in actual),
    *(
        _rule("row", f"ticdc-nokey-avro{config}/nokey.{table}", _NO_KEY, _there)
        for config in (":registry", "-tidbext:registry", "-watermark:watermark")
        for table in ("only_uk", "two_uk", "uk_nullable")
    ),
    # ---- Debezium in Avro
    *(
        _rule(
            "table",
            f"ticdc-nokey-debezium-avro:registry/nokey.{table}",
            "TiCDC cannot encode rows of a table with virtual columns in Debezium's Avro, and never sent one",
            lambda actual, _: not actual,
        )
        for table in ("gens", "expr_idx")
    ),
    _rule(
        "value",
        "ticdc-smoke-debezium-avro:registry/smk.a.n",
        "Debezium's Avro has neither DDL nor defaults: a new column is NULL in the rows that were there",
        lambda actual, expected: (actual, expected) == (None, "5"),
    ),
    # ---- Avro: no DDL
    _rule(
        "table",
        "ticdc-nokey-*avro*:registry/nokey.heap_dup",
        _NO_DDL + "a dropped table stays",
        lambda actual, _: actual,
    ),
    _rule("row", "ticdc-nokey-*avro*:registry/nokey.heap", _NO_DDL + "TRUNCATE is not sent", _there),
    _rule(
        "unknown",
        "ticdc-smoke-avro*:registry/smk.a",
        _NO_DDL + "a new column is not known before a row has it",
        lambda actual, expected: expected == {"n"},
    ),
    *(
        _rule("row", f"tiflow-{table}", _NO_DDL + "TRUNCATE is not sent", _there)
        for table in (
            "ddl_all-avro*:registry/ddl1.ai",
            "ddl_all-avro*:registry/ddl1.pl",
            "shop-avro*:registry/shop.order_items",
        )
    ),
    *(
        _rule(
            "table", f"tiflow-{table}", _NO_DDL + "a table that was dropped or renamed stays", lambda actual, _: actual
        )
        for table in (
            *(f"ddl_all-avro*:registry/{name}" for name in ("ddl1.a_*", "ddl1.q1", "ddl1.r1", "ddl2.*", "ddl_drop.t")),
            "shop-avro*:registry/shop.products",
        )
    ),
    *(
        _rule(
            "table",
            f"tiflow-{table}",
            _NO_DDL + "a table is not known before its first row",
            lambda actual, _: not actual,
        )
        for table in (
            *(f"ddl_all-avro*:registry/ddl1.{name}" for name in ("ar", "no_pk_shard", "placed")),
            "odd-avro*:registry/odd_db_1.dflt_bin",
        )
    ),
    *(
        _rule("row", f"tiflow-{table}", _NO_DDL + "rows from before a RENAME stay under the old name", _not_there)
        for table in ("ddl_all-avro*:registry/ddl1.r1x", "shop-avro*:registry/shop.catalog")
    ),
    _rule(
        "value",
        "tiflow-shop-avro*:registry/shop.catalog.price",
        _NO_DDL + "MODIFY COLUMN changes rows without row messages, here a DECIMAL's scale",
        lambda actual, expected: float(actual) == float(expected) and len(actual) < len(expected),
    ),
]


def unequal(protocol: str, differences: Iterable[Difference]) -> list[Difference]:
    """The differences that no rule allows."""
    values = [rule for rule in RULES if rule.what == "value" and rule.protocol == protocol]
    return [
        found
        for found in differences
        if not any(rule.explains("reference", found) for rule in EQUALITY)
        and not any(rule.explains(protocol, found) for rule in values)
    ]


def unneeded_rules(differences: Iterable[Difference]) -> list[str]:
    """The places and reasons of the rules that none of the differences needs."""
    differences = list(differences)
    return [
        f"{rule.where}: {rule.reason}"
        for rule in EQUALITY
        if not any(rule.explains("reference", found) for found in differences)
    ]


def _wider(actual: Any, expected: Any) -> bool:
    return (actual, expected) in {("bigint", "int"), ("string", "decimal(20,0)")} or (
        actual == "string" and str(expected).startswith("decimal")
    )


IN_THE_LAKE = [
    Rule(
        "avro",
        "type",
        "*-avro*/*.*",
        "a registered schema has a type as wide as its Avro form: small unsigned integers as INT UNSIGNED, a DECIMAL "
        "by avro-decimal-handling-mode=string as text, and so BIGINT UNSIGNED",
        _wider,
    ),
    Rule(
        "avro",
        "type",
        "*-avro*/*.*",
        "virtual columns are in no schema",
        lambda actual, expected: actual is None,
    ),
    Rule(
        "avro",
        "row",
        "tiflow-types_*-avro*/types_all.t_enum",
        "TiCDC cannot encode the ENUM value 0 in Avro, and never sent the row",
        lambda actual, expected: actual is None and expected["id"] == "8",
    ),
    Rule(
        "debezium",
        "row",
        "tiflow-types_*-debezium*/types_all.*",
        "a DECIMAL was sent as a double, which is rounded to more digits than the column has: the row is rejected",
        lambda actual, expected: actual is None and any("9" * 16 in str(cell) for cell in expected.values()),
    ),
]
"""What only the lake's typed tables show; places as above, ``type`` is that of a column in the lake."""


def unequal_in_lake(protocol: str, differences: Iterable[Difference]) -> list[Difference]:
    """The differences of the lake that no rule allows."""
    rules = [rule for rule in IN_THE_LAKE if rule.protocol == protocol]
    return [
        found for found in unequal(protocol, differences) if not any(rule.explains(protocol, found) for rule in rules)
    ]
