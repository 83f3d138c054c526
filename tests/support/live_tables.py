"""A database whose tables change while a test runs, and the changefeed of these changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

from tests.support.mariadb_server import Server
from ticdc_spark.clients.mysql import connect, connection_options
from ticdc_spark.clients.upstream import Upstream
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Row, RowChange, SchemaChange, Table
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder
from ticdc_spark.spark.types import LakeOptions, lake_columns, to_arrow

Send = Callable[[bytes], None]


class LiveTables:
    """Tables of one database that one writer changes; each change is sent once it is committed, as Simple has it."""

    def __init__(self, server: Server, schema: str, send: Send, seed: int = 1) -> None:
        self.server, self.schema, self.send, self.rand = server, schema, send, Random(seed)
        self.encoder = encoder(SimpleConfig())
        self.tables: dict[str, Table] = {}
        self.columns: dict[str, Callable[[Random], dict[str, Any]]] = {}
        self.keys: dict[str, list[int]] = {}
        self.next_key = 10_000_000
        self.changes = 0
        self.version = 1
        self.ts = 0
        self._stop = threading.Event()
        self._changing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failed: BaseException | None = None
        self._upstream = Upstream(server.uri)
        self.connection = connect(connection_options(server.uri))
        server.execute(f"CREATE DATABASE IF NOT EXISTS {schema}")

    def now(self) -> int:
        """A commit_ts above all before it."""
        self.ts = max(self.ts + 1, int(time.time() * 1000) << 18)
        return self.ts

    def add(self, name: str, create: str, values: Callable[[Random], dict[str, Any]], rows: int) -> None:
        """A table with rows that no feed has: ``values`` makes a row without its key ``id``."""
        self.server.execute(f"USE {self.schema}", create)
        self.tables[name] = self._schema(name)
        self.columns[name], self.keys[name] = values, list(range(1, rows + 1))
        with self.connection.cursor() as cursor:
            cursor.execute(f"USE {self.schema}")
            cursor.execute("BEGIN")
            for start in range(1, rows + 1, 1000):
                made = [{"id": key, **values(self.rand)} for key in range(start, min(start + 1000, rows + 1))]
                names = ", ".join(made[0])
                places = ", ".join(["%s"] * len(made[0]))
                cursor.executemany(
                    f"INSERT INTO {name} ({names}) VALUES ({places})", [list(row.values()) for row in made]
                )
            cursor.execute("COMMIT")

    def begin(self) -> None:
        """What a changefeed sends first."""
        for table in self.tables.values():
            sent = self.encoder.bootstrap(table)
            assert sent is not None
            self.send(sent.value)
        self.watermark()

    def watermark(self) -> None:
        time.sleep(0.002)  # A change of the same millisecond would lie below it, and not in a read as of it.
        sent = self.encoder.watermark(self.now())
        assert sent is not None
        self.send(sent.value)

    def leave(self, name: str) -> int:
        """The key of a row that does not change from now on."""
        with self._changing:
            return self.keys[name].pop(0)

    def change(self) -> None:
        """One transaction of one row."""
        with self._changing:
            self._change()

    def _change(self) -> None:
        rand = self.rand
        name = rand.choice(list(self.tables))
        keys, table = self.keys[name], self.tables[name]
        dice = rand.random()
        with self.connection.cursor() as cursor:
            if not keys or dice < 0.3:
                self.next_key += 1
                key = self.next_key if rand.random() < 0.5 else -self.next_key
                row = {"id": key, **self.columns[name](rand)}
                places = ", ".join(["%s"] * len(row))
                cursor.execute(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({places})", list(row.values()))
                keys.append(key)
                self._sent("insert", table, None, self._row(table, key))
                return
            at = rand.randrange(len(keys))
            key = keys[at]
            before = self._row(table, key)
            if dice < 0.5:
                cursor.execute(f"DELETE FROM {name} WHERE id = %s", [key])
                keys[at] = keys[-1]
                keys.pop()
                self._sent("delete", table, before, None)
            elif dice < 0.65:
                self.next_key += 1
                new = self.next_key if rand.random() < 0.5 else -self.next_key
                cursor.execute(f"UPDATE {name} SET id = %s WHERE id = %s", [new, key])
                keys[at] = new
                after = self._row(table, new)
                ts = self.now()
                self._sent("delete", table, before, None, ts)
                self._sent("insert", table, None, after, ts)
            else:
                row = self.columns[name](rand)
                sets = ", ".join(f"{column} = %s" for column in row)
                cursor.execute(f"UPDATE {name} SET {sets} WHERE id = %s", [*row.values(), key])
                self._sent("update", table, before, self._row(table, key))

    def alter(self, name: str, sql: str, values: Callable[[Random], dict[str, Any]]) -> None:
        """A DDL on one table."""
        before = self.tables[name]
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
        self.version += 1
        after = self.tables[name] = self._schema(name)
        self.columns[name] = values
        change = SchemaChange(
            commit_ts=self.now(), query=sql, kind="ALTER", schema=self.schema, name=name, table=after, pre_table=before
        )
        sent = self.encoder.ddl(change)
        assert sent is not None
        self.send(sent.value)

    def start(self, pause: float = 0.0) -> None:
        """Change and change, in a thread, with a watermark now and then."""

        def run() -> None:
            try:
                last = time.monotonic()
                while not self._stop.is_set():
                    self.change()
                    self.changes += 1
                    if time.monotonic() - last > 0.2:
                        last = time.monotonic()
                        self.watermark()
                    time.sleep(pause)
            except BaseException as error:
                self._failed = error
                raise

        self._stop.clear()
        self._thread = threading.Thread(target=run, name="writer")
        self._thread.start()

    def stop(self) -> None:
        """Stop changing."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._failed is not None:
            raise AssertionError("the writer failed") from self._failed
        self.watermark()

    def settle(self) -> None:
        """Send a watermark beyond what any full read may have seen."""
        self.ts = max(self.ts, int((time.time() + 10) * 1000) << 18)
        self.watermark()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The table now, in the lake's types, by key."""
        table = self.tables[name]
        keys = sorted(self.keys[name])
        found = self._upstream.lookup(table, [{"id": str(key)} for key in keys], 0)
        columns = lake_columns(table, handle_key(table), LakeOptions())
        cells = []
        for column in columns:
            array, bad, _ = to_arrow(column, LakeOptions())([row[column.source] for row in found if row is not None])
            assert not bad
            cells.append(array.to_pylist())
        names = [column.name for column in columns]
        return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]

    def count(self, name: str) -> int:
        """How many rows the server has."""
        return int(self.server.execute(f"SELECT COUNT(*) FROM {self.schema}.{name}")[0][0])

    def close(self) -> None:
        """End the writer, drop the database and close the connections: a later test's job would read its tables."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.connection.close()
        self.server.execute(f"DROP DATABASE IF EXISTS {self.schema}")
        self._upstream.close()

    def _schema(self, name: str) -> Table:
        (row,) = self.server.execute(f"SHOW CREATE TABLE {self.schema}.{name}")
        table = parse_create(row[1], self.schema, "escape")
        return Table(
            schema=self.schema,
            name=name,
            columns=table.columns,
            indexes=table.indexes,
            table_id=1 + sorted({*self.tables, name}).index(name),
            version=self.version,
        )

    def _row(self, table: Table, key: int) -> Row:
        (row,) = self._upstream.lookup(table, [{"id": str(key)}], 0)
        assert row is not None
        return {column.name: row[column.name] for column in table.columns if not column.virtual}

    def _sent(self, op: Any, table: Table, before: Any, after: Any, ts: int = 0) -> None:
        change = RowChange(op=op, table=table, commit_ts=ts or self.now(), before=before, after=after)
        for sent in self.encoder.rows([change]):
            assert sent.value is not None
            self.send(sent.value)
