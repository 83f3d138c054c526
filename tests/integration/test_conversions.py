"""ALTER TABLE … MODIFY of every type to every other, by a real MariaDB in strict mode, against our conversions.

TiCDC's upstream is TiDB; MariaDB, rounding as MySQL does, judges what they have in common. ``cannot_judge`` has where
it cannot, and why.
"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

from tests.support.conversion_cases import VALUES, converted, every_conversion
from tests.support.mariadb_server import Server, running
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.ddl import parse_create
from ticdc_spark.errors import MessageError
from ticdc_spark.model import Value
from ticdc_spark.mysql import fsp
from ticdc_spark.sinks.conversions import Conversion
from ticdc_spark.sinks.conversions.route import family


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("mariadb")) as started:
        yield started


def cannot_judge(change: Conversion, value: str | bytes) -> bool:
    """Where MariaDB is known to differ from TiDB, whose way is ours (``pkg/types`` of TiDB)."""
    old, new = family(change.before), family(change.after)
    return (
        # TiDB writes all digits and no exponent; MariaDB six digits of a FLOAT, and exponents
        (old == "float" and new in ("text", "bytes"))
        # INSERT has no -0
        or value == "-0"
        # rounded by TiDB and MySQL, cut off by MariaDB
        or (old in ("datetime", "timestamp", "time") and new == "integer" and bool(fsp(change.before)))
        # refused by MariaDB in ALTER, though not in INSERT
        or (old == "text" and new == "integer" and not str(value).strip().lstrip("-").isdigit())
        # MariaDB cuts a fraction off, and makes no YEAR of a date
        or (old in ("float", "date", "datetime", "timestamp") and new == "year")
        # read as signed by MariaDB
        or (change.before.length == 64 and old == "bit" and new == "float")
        or (old == "float" and change.after.unsigned and float(value) >= 2**63)
        # '0000' in MySQL, '0' in TiDB
        or (old == "year" and new in ("text", "bytes") and value == "0")
    )


OFFSET = "-05:00"
STRICT = "SET sql_mode = 'STRICT_ALL_TABLES,TIME_ROUND_FRACTIONAL'"


def written(kind: str, value: str | bytes) -> str | bytes | int | float:
    """A canonical value as an argument of INSERT."""
    if kind.startswith(("enum", "set", "bit", "year")):
        return int(value)
    return float(value) if kind in ("float", "double") else value


class Table:
    """A table `t` whose column `c` is modified."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.connection = pymysql.connect(
            host="127.0.0.1", port=server.port, user="root", charset="utf8mb4", autocommit=True, database="my"
        )
        self.upstream = Upstream(server.uri)

    def modified(self, old: str, new: str, values: list[str | bytes]) -> list[Value] | str:
        """The canonical values after the ALTER, or why it was refused."""
        definition = f"CREATE TABLE t (id INT PRIMARY KEY, c {new})"
        with self.connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS t")
            cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, c {old})")
            cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
            rows = [(at, written(old, value)) for at, value in enumerate(values)]
            cursor.executemany("INSERT INTO t VALUES (%s, %s)", rows)
            cursor.execute(STRICT)
            cursor.execute(f"SET time_zone = '{OFFSET}'")
            try:
                cursor.execute(f"ALTER TABLE t MODIFY c {new}")
            except pymysql.err.MySQLError as error:
                return str(error.args[1])
        found = self.upstream.lookup(parse_create(definition, "my"), [{"id": str(at)} for at in range(len(values))], 9)
        return [None if row is None else row["c"] for row in found]


@pytest.mark.mariadb  # MySQL refuses more, and takes a number for the text of an ENUM's member
def test_every_conversion_is_that_of_a_real_server(server: Server) -> None:
    server.execute("CREATE DATABASE my CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
    table, differ = Table(server), []
    for old, new, _, _, change in every_conversion(OFFSET):
        if not change.exact:
            continue
        results = [(value, converted(change, value)) for value in VALUES[old]]
        good = [(value, one) for value, one in results if not isinstance(one, MessageError)]
        found = table.modified(old, new, [value for value, _ in good])
        if isinstance(found, str):  # which of them
            each = [table.modified(old, new, [value]) for value, _ in good]
            found = [one if isinstance(one, str) else one[0] for one in each]
        differ += [
            f"{old} -> {new}: {value!r}: server {there!r}, ours {one!r}"
            for (value, one), there in zip(good, found, strict=True)
            if there != one and not cannot_judge(change, value)
        ]
    assert not differ, "\n".join([str(len(differ)), *differ])
