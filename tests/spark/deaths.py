"""A story of one batch that passes every point at which a job can die, and jobs that die at them."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

import ticdc_spark
from tests.spark.lake import lake, names, read_table, replicate, write_job
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from ticdc_spark import failpoints
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Bootstrap, Change, Column, ColumnType, RowChange, Table, Watermark
from ticdc_spark.replicate import loop

POINTS = frozenset(
    name
    for file in Path(ticdc_spark.__file__).parent.rglob("*.py")
    for name in re.findall(r'(?:failpoints\.point\(|Commit\(\(.*?\), )"(\w+)"', file.read_text())
)
"""Every named point of the code."""
STEPS = frozenset({"scan", "advance", "apply", "progress"})
"""Those between the steps of a batch; the others are inside the work on a table."""
MYSQL = frozenset({"transaction", "committed", "statement", "recorded"})
"""Those of a MySQL sink."""
TOGETHER = frozenset({"begun", "together"})
"""Those of an Iceberg sink whose tables are one commit."""
KEPT = MYSQL | TOGETHER | {"aside", "save", "saved", "wave", "batch", "history", "repair"}
"""Those of tables that stay after their DROP (`drop-table = keep`), of histories, of a changefeed and of repairs, which
are not in this story."""
GATHERED = frozenset({"base", "gather"})
"""Those behind which everything since the last commit is done again."""
WRITERS = {"python": POINTS - KEPT - {"append"}, "spark": POINTS - KEPT - {"write"}}
"""What a job passes, by who writes."""


class Death(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


def run_with_deaths(
    job_file: Path,
    dies: Callable[[str], bool],
    monkeypatch: pytest.MonkeyPatch,
    after: Callable[[], None] = lambda: None,
) -> list[str]:
    """Run to the end, dying where ``dies`` says so on the way; returns where it died. ``after``: each death."""
    died: list[str] = []

    def point(name: str) -> None:
        if dies(name):
            died.append(name)
            raise Death(name)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "point", point)
        while True:
            try:
                assert loop.run(load_job(job_file), once=True).finished
            except Death:
                after()
                continue
            return died


def everywhere() -> Callable[[str], bool]:
    """Dies after every commit to a table, and once at the points between: what is not committed is done again."""
    once, last = set(STEPS | GATHERED), ""

    def dies(name: str) -> bool:
        nonlocal last
        here = name in once or (name in POINTS - STEPS - GATHERED and (name, last) != ("write", "write"))
        once.discard(name)
        last = name if here else last
        return here

    return dies


def once_at(points: Iterable[str], times: int = 1) -> Callable[[str], bool]:
    """Dies the first time (or ``times``) that each of some points is passed."""
    left = Counter(dict.fromkeys(points, times))

    def dies(name: str) -> bool:
        left[name] -= 1
        return left[name] >= 0

    return dies


V = Column(name="v", type=INT, default="7")
C = Column(name="c", type=INT, default="5")
WORD = Column(name="v", type=ColumnType(name="varchar", length=20, charset="utf8mb4", collate="utf8mb4_bin"))
T, U, W = (table(10, V, name=name) for name in "tuw")
T1, U1 = (msgspec.structs.replace(one, columns=(*one.columns, C), version=50) for one in (T, U))
T2, T3 = (msgspec.structs.replace(T1, name=name) for name in ("t2", "t3"))
U2 = msgspec.structs.replace(U1, version=55, table_id=9)
U3 = msgspec.structs.replace(U2, name="u3")
W1 = table(50, WORD, name="w")
ANEW = table(80, V, name="t")
P, Q = (table(10, V, name=name) for name in "pq")
X, Y = table(10, V, name="x"), table(40, V, name="y")
X1 = msgspec.structs.replace(X, columns=(*X.columns, C), version=50)


def update(of: Table, ts: int, before: dict[str, str | None], **row: str | None) -> RowChange:
    return RowChange(op="update", table=of, commit_ts=ts, before=before, after=before | row)


def delete(of: Table, ts: int, **row: str | None) -> RowChange:
    return RowChange(op="delete", table=of, commit_ts=ts, before=row)


def create(of: Table, ts: int) -> Change:
    return ddl("CREATE", ts, f"CREATE TABLE `{of.name}` (`id` INT PRIMARY KEY,`v` INT DEFAULT 7)", of)


PARTITIONED = (
    ddl(
        "CREATE",
        10,
        "CREATE TABLE `p` (`id` INT PRIMARY KEY,`v` INT DEFAULT 7) PARTITION BY RANGE (`id`) "
        "(PARTITION `p0` VALUES LESS THAN (10), PARTITION `p1` VALUES LESS THAN (20))",
        P,
    ),
    create(Q, 10),
    *(insert(P, 20 + at // 2, id=str(at), v=str(at)) for at in (1, 5, 11)),
    *(insert(Q, 20 + at, id=str(at), v=str(-at)) for at in (2, 5)),
)
FIRST: tuple[Change, ...] = (
    *(create(one, 10) for one in (T, U, W)),
    *(insert(one, 20 + at, id=str(at), v=str(at)) for one in (T, U, W) for at in range(1, 5)),
    *(Bootstrap(X), insert(X, 22, id="1", v="1")),
    *PARTITIONED,
    Watermark(30),
)
"""Four tables, and two that exchange rows, as they are found; one was there before the changefeed."""
FOUND: tuple[Change, ...] = (
    *(Bootstrap(one) for one in (T, U, W, X)),
    *(insert(one, 20 + at, id=str(at), v=str(at)) for one in (T, U, W) for at in range(1, 5)),
    insert(X, 22, id="1", v="1"),
    *PARTITIONED,
    Watermark(30),
)
"""The same, but that the first four were there before the changefeed."""
SECOND: tuple[Change, ...] = (
    *(
        change
        for one in (T, U, W)
        for change in (
            insert(one, 40, id="5", v=None),
            insert(one, 41, id="6", v="6"),
            insert(one, 42, id="7", v="7"),
            update(one, 43, {"id": "1", "v": "1"}, v="11"),
            delete(one, 44, id="2", v="2"),
        )
    ),
    # Columns change, the table goes on under other names, and another one takes its old name.
    ddl("ALTER", 50, "ALTER TABLE `t` ADD COLUMN `c` INT DEFAULT 5", T1, T),
    update(T1, 52, {"id": "3", "v": "3", "c": "5"}, c=None),
    ddl("RENAME", 60, "RENAME TABLE `t` TO `t2`", T2, T1),
    insert(T2, 62, id="2", v="22", c="2"),
    ddl("RENAME", 70, "RENAME TABLE `t2` TO `t3`", T3, T2),
    update(T3, 72, {"id": "2", "v": "22", "c": "2"}, id="8"),
    create(ANEW, 80),
    insert(ANEW, 82, id="1", v="100"),
    # Columns change, rows go, and in the end the table goes.
    ddl("ALTER", 50, "ALTER TABLE `u` ADD COLUMN `c` INT DEFAULT 5", U1, U),
    insert(U1, 52, id="9", v="9", c="9"),
    ddl("TRUNCATE", 55, "TRUNCATE TABLE `u`", U2, U1),
    insert(U2, 57, id="1", v="1", c="1"),
    ddl("RENAME", 60, "RENAME TABLE `u` TO `u3`", U3, U2),
    insert(U3, 62, id="2", v="2", c="2"),
    ddl("ERASE", 70, "DROP TABLE `s`.`u3`", U3, U3),
    # A column changes its type.
    ddl("ALTER", 50, "ALTER TABLE `w` MODIFY COLUMN `v` VARCHAR(20)", W1, W),
    insert(W1, 52, id="9", v="nine"),
    # A partition and a table exchange their rows.
    insert(P, 40, id="3", v="3"),
    ddl("ALTER", 50, "ALTER TABLE `s`.`p` EXCHANGE PARTITION `p0` WITH TABLE `s`.`q`", P, Q),
    *(insert(P, 52, id="1", v="-1"), insert(Q, 52, id="4", v="4")),
    # No DDL made a column, or a table.
    *(Bootstrap(X1), insert(X1, 52, id="2", v="2", c="2")),
    *(Bootstrap(Y), insert(Y, 52, id="1", v="1")),
    Watermark(100),
)
"""One batch that takes all of them through changes of their schemas and names."""
END = {
    "t": [{"id": 1, "v": 100}],
    "t3": [
        {"id": 1, "v": 11, "c": 5},
        {"id": 3, "v": 3, "c": None},
        {"id": 4, "v": 4, "c": 5},
        {"id": 5, "v": None, "c": 5},
        {"id": 6, "v": 6, "c": 5},
        {"id": 7, "v": 7, "c": 5},
        {"id": 8, "v": 22, "c": 2},
    ],
    "w": [
        {"id": 1, "v": "11"},
        {"id": 3, "v": "3"},
        {"id": 4, "v": "4"},
        {"id": 5, "v": None},
        {"id": 6, "v": "6"},
        {"id": 7, "v": "7"},
        {"id": 9, "v": "nine"},
    ],
    "p": [{"id": 1, "v": -1}, {"id": 2, "v": -2}, {"id": 5, "v": -5}, {"id": 11, "v": 11}],
    "q": [{"id": 1, "v": 1}, {"id": 3, "v": 3}, {"id": 4, "v": 4}, {"id": 5, "v": 5}],
    "x": [{"id": 1, "v": 1, "c": None}, {"id": 2, "v": 2, "c": 2}],
    "y": [{"id": 1, "v": 1}],
}


END_OF_FOUND = END | {"x": [{"id": 1, "v": 1, "c": 5}, {"id": 2, "v": 2, "c": 2}]}
"""After ``FOUND`` and ``SECOND`` in one batch: a column is not new whose table is made with it."""


def before_the_batch(folder: Path, writer: str = "python") -> Path:
    """A job that has done ``FIRST``, with ``SECOND`` before it."""
    job_file = write_job(folder, topic(folder, FIRST), f'writer = "{writer}"')
    replicate(job_file)
    topic(folder, [*FIRST, *SECOND])
    return job_file


def tables(spark: SparkSession, folder: Path) -> dict[str, list[dict[str, object]]]:
    session = lake(spark, folder)
    return {
        name: sorted(read_table(session, schema, name), key=lambda row: int(row["id"]))
        for schema, name in names(session)
    }
