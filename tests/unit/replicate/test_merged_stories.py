"""Random stories of tables that are merged: in the end the target has the rows of each, as the source has them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.simulator.faults import Fault
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop
from ticdc_spark.config.job import Route
from ticdc_spark.model import TableName
from ticdc_spark.mysql import default_value

RULE = Route(tables=("*.o_*",), target_schema=SCHEMA, target_table="o", origin=("_schema", "_table"))
NAMES = ((SCHEMA, "o_1"), (SCHEMA, "o_2"), ("mall", "o_1"), ("mall", "o_2"))
NUMBERS = ("1", "2", "-3", None)
STORIES, MOVES = 40, 60


class Story:
    """A shop of some shards, and what happens to them."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        protocol = self.chance.choice(("simple", "open", "canal-json", "debezium"))
        self.shop = Shop(protocol, routes=(RULE,), topic_per_table=self.chance.random() < 0.3)
        self.dropped: set[tuple[TableName, str]] = set()
        """Columns that shards have dropped: their rows keep what they had there."""
        self.comes_back = False
        """Whether such a column came again, which marks the table."""

    @property
    def live(self) -> list[TableName]:
        return sorted(self.shop.tables)

    def has(self, name: TableName, column: str) -> bool:
        return any(one.name == column for one in self.shop.tables[name].columns)

    def sql(self, query: str, name: TableName) -> None:
        self.shop.sql(query.format(name[1]), schema=name[0])

    def ddl(self) -> None:
        gone = [name for name in NAMES if name not in self.live]
        if gone and self.chance.random() < 0.6:
            name = self.chance.choice(gone)
            self.dropped = {one for one in self.dropped if one[0] != name}
            kind, more = (
                self.chance.choice(("INT", "SMALLINT")),
                self.chance.choice(("", ", w INT DEFAULT 5", ", x VARCHAR(9)")),
            )
            self.sql(f"CREATE TABLE {{}} (id INT PRIMARY KEY, v {kind}{more})", name)
            return
        if not self.live:
            return
        name = self.chance.choice(self.live)
        what = self.chance.choice(("ADD", "ADD", "ADD", "DROP", "DROP", "MODIFY", "TRUNCATE", "GONE", "ALL GONE"))
        column = self.chance.choice(("w", "x"))
        if what == "ADD" and not self.has(name, column):
            self.comes_back |= (name, column) in self.dropped
            self.sql(f"ALTER TABLE {{}} ADD COLUMN {column} {'INT DEFAULT 5' if column == 'w' else 'VARCHAR(9)'}", name)
        elif what == "DROP" and self.has(name, column):
            self.dropped.add((name, column))
            self.sql(f"ALTER TABLE {{}} DROP COLUMN {column}", name)
        elif what == "MODIFY" and self.shop.tables[name].columns[1].type.name != "bigint":
            self.sql("ALTER TABLE {} MODIFY COLUMN v BIGINT", name)
        elif what == "TRUNCATE":
            self.sql("TRUNCATE TABLE {}", name)
        elif what == "GONE":
            self.sql("DROP TABLE {}", name)
        elif what == "ALL GONE" and self.chance.random() < 0.5:
            self.sql(f"DROP DATABASE {name[0]}", name)

    def change(self) -> None:
        """A row comes, changes or goes."""
        if not self.live:
            return
        name, key = self.chance.choice(self.live), str(self.chance.randrange(1, 5))
        columns = [one.name for one in self.shop.tables[name].columns if one.name != "id"]
        row = {column: self.chance.choice(NUMBERS) for column in columns}
        if (name, key) not in self.shop.held:
            self.shop.insert(name[1], name[0], id=key, **row)
        elif self.chance.random() < 0.7:
            self.shop.update(name[1], name[0], id=key, **row)
        else:
            self.shop.delete(name[1], name[0], id=key)

    def sent_again(self) -> None:
        """TiCDC starts again, from an older message of a topic."""
        broker = self.shop.broker
        for place, end in broker.end_offsets().items():
            for one in broker.read(place, max(0, end - self.chance.randrange(1, 12)), end):
                broker.append(place, one.key, one.value, self.shop.ts >> 18)

    def process(self) -> None:
        if not self.shop.broker.topics:
            return
        rows = self.chance.choice((4, 20, 100_000))
        if self.chance.random() < 0.5:
            kind: Any = self.chance.choice(("die_before", "die_after"))
            self.shop.dies_at(Fault(at=self.chance.randrange(30), kind=kind), rows)
            self.shop.faults.arm(None)
        else:
            self.shop.run(rows, again=self.chance.random() < 0.3)

    def run(self) -> None:
        moves = (
            self.change,
            self.change,
            self.change,
            self.change,
            self.ddl,
            self.watermark,
            self.process,
            self.sent_again,
        )
        for _ in range(MOVES):
            self.chance.choice(moves)()
        self.shop.sql("CREATE TABLE IF NOT EXISTS o_4 (id INT PRIMARY KEY, v INT)")
        self.watermark()
        self.shop.run(again=True)

    def watermark(self) -> None:
        self.shop.watermark()

    def judge(self) -> None:
        found = self.shop.lake("o")
        assert found is not None
        held = {((row["_schema"], row["_table"]), str(row["id"])): row for row in found.rows}
        assert sorted(held) == sorted((name, str(key)) for name, key in self.shop.held)
        assert len(held) == len(found.rows)
        for (name, key), row in self.shop.held.items():
            for column in self.shop.tables[name].columns:
                if not (self.comes_back and column.name in ("w", "x")):
                    value = row.get(column.name, default_value(column))
                    got = held[name, str(key)][column.name]
                    assert (None if got is None else str(got)) == value, (name, key, column.name)
        known = self.shop.status("o", f"merged:{SCHEMA}").condition
        assert known == ("diverged" if self.comes_back else "clean")


@pytest.mark.parametrize("first", range(0, STORIES, 10))
def test_a_story_ends_with_the_rows_of_all_tables(first: int) -> None:
    for seed in range(first, first + 10):
        story = Story(seed)
        story.run()
        try:
            story.judge()
        except AssertionError as error:
            raise AssertionError(f"story {seed}: {error}") from error
