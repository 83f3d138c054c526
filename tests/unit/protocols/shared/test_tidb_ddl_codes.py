"""TiDB's type codes of DDL, from SQL as a person or another server writes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ticdc_spark.protocols.shared.ddl_words import ddl_word
from ticdc_spark.protocols.shared.tidb_ddl_codes import ddl_type_code

CODES = {
    "ALTER TABLE t AUTO_INCREMENT = 5": 13,
    "ALTER TABLE t FORCE AUTO_INCREMENT=5": 13,
    "ALTER TABLE t SHARD_ROW_ID_BITS=4": 16,
    "ALTER TABLE t COMMENT='X'": 17,
    "ALTER TABLE t COMMENT 'x'": 17,
    "ALTER TABLE t ENGINE=InnoDB COMMENT='x'": 17,
    "ALTER TABLE t CHARSET latin1 ENGINE=InnoDB ROW_FORMAT=DYNAMIC": 22,
    "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (1))": 19,
    "ALTER TABLE t ADD PARTITION PARTITIONS 4": 64,
    "ALTER TABLE t COALESCE PARTITION 2": 64,
    "ALTER TABLE t TTL = a + INTERVAL 1 DAY": 65,
    "ALTER TABLE t TTL_ENABLE = 'OFF'": 65,
    "ALTER TABLE t TTL_JOB_INTERVAL='1h'": 65,
    "ALTER TABLE t REMOVE  TTL": 67,
    "ALTER TABLE t PARTITION BY HASH (id)": 71,
    "ALTER TABLE t REMOVE PARTITIONING": 72,
    "ALTER TABLE t COMMENTS = 5": 0,
    "ALTER TABLE t CACHE": 0,
}


@pytest.mark.parametrize("write", [str, str.lower, str.title])
@pytest.mark.parametrize("sql", CODES)
def test_letters_of_words_decide_nothing(sql: str, write: Callable[[str], str]) -> None:
    assert ddl_type_code(write(sql)) == CODES[sql]


def test_words_of_ddl_are_the_same_in_any_case() -> None:
    for sql in ("ALTER TABLE t TTL_ENABLE='OFF'", "ALTER TABLE t REMOVE TTL"):
        assert ddl_word(sql) == ddl_word(sql.lower()) == "QUERY"
