"""Random stories without watermarks: rows and DDL over partitions, small batches, deaths and messages sent again."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Any

import pytest

from tests.simulator.faults import Fault
from tests.support.arrival_shop import ArrivalShop
from tests.support.changefeed import SCHEMA
from ticdc_spark.config.job import SchemaFiles
from ticdc_spark.config.values import SkipDdl
from ticdc_spark.errors import RejectedMessage, SchemaMissing, UnsupportedDdl
from ticdc_spark.model import Value

_TABLES = ("t", "u")
_KEYS = 6


class Story:
    """What happens at the source and to the job, chosen by a seed. A key's rows are always in one partition."""

    def __init__(self, protocol: str, partitions: int, seed: int, **shop: Any) -> None:
        self.random = random.Random(seed)
        self.shop = ArrivalShop(protocol, partitions, **shop)
        self.columns = 0

    def tell(self, steps: int) -> None:
        """Let things happen, and then let the job read everything."""
        for _ in range(steps):
            roll = self.random.random()
            if roll < 0.62:
                self._change_row()
            elif roll < 0.78:
                self._run_ddl()
            elif roll < 0.82:
                self._send_again()
            else:
                self._let_the_job_run()
        self._run_to_the_end(self.random.choice([3, 100_000]))

    def _run_to_the_end(self, rows: int) -> None:
        """An error that stops the job names a way out, which is taken."""
        self.shop.faults.arm(None)
        for _ in range(20):
            try:
                self.shop.run(rows, again=True)
                self.shop.batch()  # after an interrupted batch
                if not self.shop.lab.view().hold:
                    return
                self.shop.clock.advance(3600.0)
                self.shop.batch()
            except UnsupportedDdl as error:
                ts, sql = named_in(error, "skip-ddl").split(":", 1)
                skipped = self.shop.keys.get("skip_ddl", ())
                self.shop.configure(skip_ddl=(*skipped, SkipDdl(commit_ts=int(ts), prefix=sql)))
            except SchemaMissing as error:
                known = self.shop.keys.get("schema", SchemaFiles()).skip_to_known
                self.shop.configure(schema=SchemaFiles(skip_to_known=(*known, named_in(error, "skip-to-known"))))
            except RejectedMessage:
                self.shop.configure(on_reject="continue")
        raise AssertionError("the job stops again and again")

    def _table(self) -> str | None:
        there = [name for name in _TABLES if (SCHEMA, name) in self.shop.tables]
        return self.random.choice(there) if there else None

    def _change_row(self) -> None:
        name = self._table()
        if name is None:
            return
        key = str(self.random.randrange(_KEYS))
        at, table = ((SCHEMA, name), key), self.shop.tables[SCHEMA, name]
        row: dict[str, Value] = {column.name: str(self.random.randrange(99)) for column in table.columns} | {"id": key}
        op = "insert" if at not in self.shop.held else self.random.choice(["update", "update", "delete"])
        change = self.shop.row(op, (SCHEMA, name), {"id": key} if op == "delete" else row)
        self.shop.put_row(change, int(key) % self.shop.partitions, self.shop.topic((SCHEMA, name)))

    def _run_ddl(self) -> None:
        name = self.random.choice(_TABLES)
        if (SCHEMA, name) not in self.shop.tables:
            model = self._table()
            if model is not None and self.shop.topic_per_table and self.random.random() < 0.3:
                self._send_ddl(f"CREATE TABLE {name} LIKE {model}", name)
            else:
                self._send_ddl(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", name)
            return
        self.columns += 1
        other = next(one for one in _TABLES if one != name)
        choices = [f"ALTER TABLE {name} ADD COLUMN c{self.columns} INT", f"TRUNCATE TABLE {name}"]
        last = self.shop.tables[SCHEMA, name].columns[-1].name
        choices += [f"ALTER TABLE {name} DROP COLUMN {last}"] if last != "id" else []
        choices += [f"DROP TABLE {name}"]
        rename = [f"RENAME TABLE {name} TO {other}"] * (3 if self.shop.topic_per_table else 1)
        choices += rename if (SCHEMA, other) not in self.shop.tables else []
        self._send_ddl(self.random.choice(choices), name)

    def _send_ddl(self, query: str, name: str) -> None:
        """``name``: the table before the DDL, or the one that it makes. Its topic has the DDL, a RENAME too."""
        self.shop.ddl(query, self.shop.topic((SCHEMA, name)))

    def _send_again(self) -> None:
        """TiCDC restarts: some last messages of each partition come once more."""
        back = self.random.randint(1, 8)
        for name, topic in self.shop.broker.topics.items():
            for at, partition in enumerate(topic.partitions):
                for message in partition.messages[-back:]:
                    self.shop.broker.append((name, at), message.key, message.value, message.timestamp)

    def _let_the_job_run(self) -> None:
        rows = self.random.choice([1, 3, 10, 100_000])
        if self.random.random() < 0.3:
            kind = self.random.choice(["die_before", "die_after"])
            self.shop.dies_at(Fault(at=self.random.randrange(12), kind=kind), rows)
            self.shop.faults.arm(None)
        elif self.shop.topic_per_table and self.random.random() < 0.5:
            ends = self.shop.broker.end_offsets()
            self.shop.batch_behind({place: self.random.randint(0, end) for place, end in ends.items()})
        else:
            self.shop.batch(rows)

    def source(self) -> dict[str, list[Mapping[str, Value]]]:
        """The rows of each table at the source, by key."""
        found: dict[str, list[Mapping[str, Value]]] = {}
        for (schema, name), table in self.shop.tables.items():
            rows = [row for (at, _), row in sorted(self.shop.held.items()) if at == (schema, name)]
            found[name] = [{column.name: row.get(column.name) for column in table.columns} for row in rows]
        return found

    def lake(self) -> dict[str, list[dict[str, Any]]]:
        """The same of the lake."""
        found = {}
        for name in _TABLES:
            table = self.shop.lake(name)
            if table is not None:
                rows = [
                    {c: None if row[c] is None else str(row[c]) for c in table.columns if c != "_ticdc_commit_ts"}
                    for row in table.rows
                ]
                found[name] = sorted(rows, key=lambda row: str(row["id"]))
        return found

    def differences(self) -> set[str]:
        """The tables that are not as at the source, and neither marked for it nor kept."""
        lake, source, marked = self.lake(), self.source(), self.shop.lab.view().tables
        found = {name for name in lake.keys() | source.keys() if lake.get(name) != source.get(name)}
        conditions = {name: marked[SCHEMA, name].condition for name in found if (SCHEMA, name) in marked}
        return {
            name
            for name in found
            if conditions.get(name) != "diverged" and (name in source or conditions.get(name) != "kept")
        }


class SilentStory(Story):
    """A story of a changefeed that sends no DDL: the rows' schemas in a registry show new and dropped columns."""

    def __init__(self, protocol: str, partitions: int, seed: int, *, extension: bool = False) -> None:
        super().__init__(protocol, partitions, seed, extension=extension, schema_change="keep")
        for name in _TABLES:
            self.shop.change(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)")

    def _run_ddl(self) -> None:
        name = self.random.choice(_TABLES)
        self.columns += 1
        last = self.shop.tables[SCHEMA, name].columns[-1].name
        choices = [f"ALTER TABLE {name} ADD COLUMN c{self.columns} INT"]
        choices += [f"ALTER TABLE {name} DROP COLUMN {last}"] if last != "id" else []
        self.shop.change(self.random.choice(choices))

    def lake(self) -> dict[str, list[dict[str, Any]]]:
        """The same without the columns that the source dropped; a table without rows need not be there."""
        columns = {name: [one.name for one in table.columns] for (_, name), table in self.shop.tables.items()}
        found = {
            name: [{c: row.get(c) for c in columns[name]} for row in rows] for name, rows in super().lake().items()
        }
        return {name: [] for name in columns} | found


def named_in(error: Exception, key: str) -> str:
    """The value of a key of the job file, as an error names it."""
    found = re.search(rf"{key} = \[(\".*?\")\]", str(error))
    assert found is not None, error
    value: str = json.loads(found[1])
    return value


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(
    ("protocol", "partitions"), [("canal-json", 1), ("canal-json", 3), ("debezium", 1), ("debezium", 3)]
)
def test_the_lake_ends_as_the_source(protocol: str, partitions: int, seed: int) -> None:
    story = Story(protocol, partitions, seed)
    story.tell(40)
    assert story.lake() == story.source()


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(
    ("protocol", "partitions"), [("canal-json", 1), ("canal-json", 3), ("debezium", 1), ("debezium", 3)]
)
def test_tables_with_a_topic_each_end_as_the_source_or_are_marked(protocol: str, partitions: int, seed: int) -> None:
    story = Story(protocol, partitions, seed, topic_per_table=True)
    story.tell(40)
    assert not story.differences()


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("topic_per_table", [False, True])
@pytest.mark.parametrize("protocol", ["canal-json", "debezium"])
@pytest.mark.parametrize(
    "job", [{"drop_table": "keep"}, {"schema": SchemaFiles(skip_to_known=("shop.*",))}], ids=["keep", "skip"]
)
def test_tables_that_keep_or_lack_rows_are_marked(
    job: dict[str, Any], protocol: str, topic_per_table: bool, seed: int
) -> None:
    story = Story(protocol, 3, seed, topic_per_table=topic_per_table, **job)
    story.tell(40)
    assert not story.differences()


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(("protocol", "extension"), [("avro", False), ("avro", True), ("debezium-avro", False)])
def test_without_ddl_rows_end_as_at_the_source(protocol: str, extension: bool, partitions: int, seed: int) -> None:
    story = SilentStory(protocol, partitions, seed, extension=extension)
    story.tell(40)
    assert story.lake() == story.source()
