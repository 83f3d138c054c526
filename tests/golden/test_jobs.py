"""Every vector case through a whole job to the tables that the database had, in each configuration with watermarks.

The job counts rows of tables without a key (``no-key = "apply"``) and keeps dropped tables for a while, so that no DDL
is left to a person. ``EXCEPTIONS`` lists what differs all the same, with reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.golden.test_reference import CONFIGS, PROTOCOL, final_tables, mode
from tests.spark.test_vectors import expected_rows
from tests.support.shop import Shop
from tests.support.vectors import Config, needs_vectors
from ticdc_spark.model import TableName
from ticdc_spark.names import escape
from ticdc_spark.protocols import protocol

pytestmark = needs_vectors

ELSEWHERE = ("*claim_check*", "*handle_key")
"""Configurations that need more than the topic: a store for large rows, or the source's database.
``tests/integration`` has both."""
LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    # TiCDC ignored CREATE TABLE no_key, as the table had no key yet. Without a schema in the message, only
    # `[schema] file` can describe it. Simple has the schema.
    "tiflow-ddl_all-open*": ("!ddl1.no_key",),
    "tiflow-ddl_all-canal*": ("!ddl1.no_key",),
    # Debezium sends no FLASHBACK TABLE, so the table's schema is not known either.
    "tiflow-ddl_all-debezium*": ("!ddl1.no_key", "!ddl1.a_flash"),
}
"""What a person excludes, by configuration: ``tables`` under ``[job]``."""
_FLASHBACK = "the recording's database keeps no dropped rows, TiDB does (test_parked.py)"
_NO_KEY = "a row from before the table had a key was not sent"
_UTF8 = "text that is not UTF-8 was lost on the wire: the row is rejected"
_ZERO = "Debezium sends zero dates as 1970, and years of two digits as four"
_LAST = "the recording's last watermark equals the last commit_ts, which therefore is not resolved"
_DELETE = "TiCDC sends no delete of a table without a key there"
EXCEPTIONS = (
    ("tiflow-ddl_all-*", "ddl1.a_flash", _FLASHBACK),
    ("tiflow-ddl_all-*", "ddl1.no_key", _NO_KEY),
    ("tiflow-ddl_all-debezium*", "ddl1.a", _ZERO),
    ("tiflow-odd-open*", "odd db.1.vals", _UTF8),
    ("tiflow-odd-simple_avro*", "odd db.1.vals", _UTF8),
    ("tiflow-odd-debezium*", "odd db.1.vals", _UTF8),
    ("tiflow-types_[as]*-debezium*", "types_all.t_zero", _ZERO),
    ("tiflow-types_[as]*-debezium*", "types_all.t_nulldef", "Debezium sends the default in place of NULL"),
    ("tiflow-keys_force-open_no_old_value", "keys_db.k_none", "without old values no row is found again"),
    ("tiflow-keys_force-open_no_old_value", "keys_db.k_unique_null", "without old values no row is found again"),
    ("ticdc-nokey-open-updatedonly", "nokey.only_uk", _DELETE),
    ("ticdc-nokey-open-updatedonly", "nokey.uk_nullable", _DELETE),
    ("ticdc-smoke-*", "smk.a", _LAST),
)
"""(configuration, table, reason): tables that differ from the database's."""


def _is_run(config: Config) -> bool:
    needs_registry = protocol(config.protocol).traits.registry
    more = any(fnmatchcase(str(config), pattern) for pattern in ELSEWHERE)
    return mode(config) == "watermark" and not needs_registry and not more


RUN = [config for config in CONFIGS if _is_run(config)]


def _shop(config: Config) -> Shop:
    excluded = [rule for pattern, rules in LEFT_OUT.items() if fnmatchcase(str(config), pattern) for rule in rules]
    tables = {"tables": ("*.*", *excluded)} if excluded else {}
    shop = Shop(
        PROTOCOL[config.protocol],
        zone=config.zone,
        no_key="apply",
        keep_dropped=600.0,
        on_reject="continue",
        **tables,
    )
    for sent in config.messages:
        shop.broker.append(("cdc", 0), sent.message.key, sent.message.value, 1)
    return shop


def _is_equal(shop: Shop, config: Config, name: TableName) -> bool:
    lake = shop.lake(name[1], name[0])
    if lake is None:
        return False
    kinds, wanted = expected_rows(*final_tables(config)[name])

    def counted(rows: list[dict[str, Any]]) -> Counter[tuple[tuple[str, str], ...]]:
        return Counter(tuple(sorted((key, repr(row[key])) for key in row if key in kinds)) for row in rows)

    return counted([{escape(key): value for key, value in row.items()} for row in lake.rows]) == counted(wanted)


@pytest.mark.parametrize("config", RUN, ids=str)
def test_a_job_ends_in_the_tables_of_the_database(config: Config) -> None:
    shop = _shop(config)
    shop.run(1000)
    assert not shop.lab.view().hold
    different = {".".join(name) for name in final_tables(config) if not _is_equal(shop, config, name)}
    assert different == {table for pattern, table, _ in EXCEPTIONS if fnmatchcase(str(config), pattern)}
