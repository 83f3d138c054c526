"""Random stories of tables of which only some rows are kept: in the end these are the same as at the source."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from random import Random
from typing import Any, cast

import pytest

from tests.simulator.database import Database
from tests.simulator.faults import Fault
from tests.simulator.snapshots import DatabaseView
from tests.support.changefeed import SCHEMA
from tests.support.shop import Shop, ShopTables
from ticdc_spark.config.job import Recording, Route
from ticdc_spark.errors import UsageError
from ticdc_spark.model import Row, Value
from ticdc_spark.mysql import default_value

RULE = Route(tables=("shop.*",), where="region = 'EU' AND amount >= 100", rename_columns=(("note", "said"),))
CREATE = "CREATE TABLE t (id INT PRIMARY KEY, region VARCHAR(9), amount DECIMAL(9,2), note VARCHAR(20))"
DDLS = (
    "TRUNCATE TABLE t",
    "ALTER TABLE t MODIFY COLUMN region VARCHAR(20), MODIFY COLUMN amount DECIMAL(12,2)",
    "ALTER TABLE t ADD COLUMN more INT DEFAULT 5",
    "ALTER TABLE t DROP COLUMN more",
)
STORIES, MOVES = 25, 60


class Live(Shop):
    """A shop whose tables are always read as they are."""

    def reader(self) -> DatabaseView:
        return DatabaseView(cast(Database, ShopTables(self)), "now", 0)


class Story:
    """A shop of one table, and what happens to it."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        protocol = self.chance.choice(("simple", "open", "canal-json", "debezium"))
        histories = (Recording(tables=("*.*",)),) if self.chance.random() < 0.3 else ()
        self.shop = Live(protocol, routes=(RULE,), snapshot="now", histories=histories)
        self.shop.sql(CREATE)
        self.ddls = list(DDLS) if self.chance.random() < 0.5 else []
        """Those that may come. With none of them the source may be read in full: it does not tell tables apart."""

    def values(self) -> Row:
        chance = self.chance
        known: dict[str, tuple[Value, ...]] = {
            "region": ("EU", "EU", "US", "eu", None),
            "amount": ("100.00", "99.99", "500.00", "-1.00", None),
            "note": ("a", "b", None),
            "more": ("1", "2", None),
        }
        columns = [column.name for column in self.shop.tables[SCHEMA, "t"].columns]
        return {name: chance.choice(known[name]) for name in columns if name != "id"}

    def ids(self) -> list[Value]:
        return [key for _, key in self.shop.held]

    def change(self) -> None:
        """A row comes, changes or goes."""
        key = str(self.chance.randrange(1, 9))
        if key not in self.ids():
            self.shop.insert("t", id=key, **self.values())
        elif self.chance.random() < 0.7:
            self.shop.update("t", id=key, **self.values())
        else:
            self.shop.delete("t", id=key)

    def ddl(self) -> None:
        if not self.ddls:
            return
        has_more = any(column.name == "more" for column in self.shop.tables[SCHEMA, "t"].columns)
        fit = [one for one in self.ddls if "COLUMN more" not in one or ("DROP" in one) is has_more]
        query = self.chance.choice(fit)
        if "MODIFY" in query:
            self.ddls.remove(query)
        self.shop.sql(query)
        if "COLUMN more" in query:
            (*_, last) = self.shop.tables[SCHEMA, "t"].columns
            value = default_value(last) if "ADD" in query else None
            for row in self.shop.held.values():
                row.pop("more", None)
                if "ADD" in query:
                    row["more"] = value  # type: ignore[index]

    def work(self) -> None:
        """The job goes on, perhaps in a new process, or to its death."""
        self.shop.watermark()
        rows = self.chance.choice((1, 3, 1000))
        if self.chance.random() < 0.5:
            kind: Any = self.chance.choice(("die_before", "die_after"))
            self.shop.dies_at(Fault(at=self.chance.randrange(8), kind=kind), rows)
            self.shop.faults.arm(None)
        else:
            self.shop.run(rows, again=self.chance.random() < 0.5)

    def read(self) -> None:
        """A full read is asked for."""
        with suppress(UsageError):  # the job does not have it yet
            self.chance.choice((self.shop.rebuild_from_topic, *(() if self.ddls else (self.shop.rebuild,))))("t")

    def kept(self) -> list[tuple[Any, ...]]:
        rows = [
            (int(str(key)), row) for (_, key), row in self.shop.held.items() if row["region"] == "EU" and row["amount"]
        ]
        names = [column.name for column in self.shop.tables[SCHEMA, "t"].columns]
        found = [
            (number, *(_typed(name, row[name]) for name in names if name != "id"))
            for number, row in rows
            if Decimal(str(row["amount"])) >= 100
        ]
        return sorted(found, key=repr)


def _typed(name: str, value: Value) -> Any:
    kinds: dict[str, Any] = {"amount": Decimal, "more": int}
    return None if value is None else kinds.get(name, str)(value)


@pytest.mark.parametrize("first", range(0, STORIES, 5))
def test_the_rows_that_are_kept_are_those_of_the_source(first: int) -> None:
    for seed in range(first, first + 5):
        story = Story(seed)
        moves = [story.change] * 12 + [story.ddl, story.work, story.work, story.read]
        for _ in range(MOVES):
            story.chance.choice(moves)()
        for _ in range(4):  # a full read ends, and settles
            story.shop.watermark()
            story.shop.run()
        assert story.shop.rows("t") == story.kept(), seed
        assert story.shop.condition("t") in ("clean", "unverified"), seed
