"""A job that dies at any point inside its steps, again and again, ends where an undisturbed one ends (I1, I2, I3)."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

import ticdc_spark
from tests.spark.lake import lake, make_topic, names, read_table, replicate, wild, write_job
from tests.spark.simple_topic import INT, ddl, insert, table, topic
from ticdc_spark import failpoints
from ticdc_spark.cli.demo import compare
from ticdc_spark.config.job import Job
from ticdc_spark.config.load import load_job
from ticdc_spark.model import Bootstrap, Change, Column, ColumnType, RowChange, Table, TableName, Watermark
from ticdc_spark.replicate import loop
from ticdc_spark.replicate.apply import batch as batch_module
from ticdc_spark.replicate.apply.look import Looked, look_at
from ticdc_spark.replicate.apply.timelines import TimelineResult
from ticdc_spark.replicate.decide import Decided
from ticdc_spark.replicate.modes.commit import committed
from ticdc_spark.replicate.state.progress import TableState
from ticdc_spark.replicate.step import Steps
from ticdc_spark.sinks.base import Sink
from ticdc_spark.sinks.iceberg import net_changes

POINTS = frozenset(
    name
    for file in Path(ticdc_spark.__file__).parent.rglob("*.py")
    for name in re.findall(r'(?:failpoints\.point\(|\bCommit\(\(.*?\), )"(\w+)"', file.read_text())
)
"""Every named point of the code."""
STEPS = frozenset({"plan", "land", "advance", "apply", "progress"})
"""Those between the steps of a batch; the others are inside the work on a table."""
KEPT = frozenset({"aside", "base", "gather", "swap", "save", "saved"})
"""Those of tables that stay after their DROP (`drop-table = keep`), of full reads and of a changefeed, which are not in
this story."""
WRITERS = {"python": POINTS - KEPT - {"append"}, "spark": POINTS - KEPT - {"write"}}
"""What a job passes, by who writes."""


class Death(BaseException):
    """Nothing catches it, as nothing catches SIGKILL."""


def run_with_deaths(job_file: Path, dies: Callable[[str], bool], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run to the end, dying on the way where ``dies`` is true; returns where it died."""
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
                continue
            return died


def test_the_failpoints_are_those_that_are_documented() -> None:
    reported = re.search(r"successor: (.*)\.", failpoints.__doc__ or "", re.DOTALL)
    assert reported is not None
    words = set(re.findall(r"\w+", re.sub(r"\(.*?\)", "", reported[1], flags=re.DOTALL)))
    assert words - {"of", "full", "reads", "a", "changefeed"} == POINTS


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
@pytest.mark.parametrize("writer", ["python", pytest.param("spark", marks=pytest.mark.slow)])
def test_deaths_inside_the_steps_change_nothing(
    spark: SparkSession, folder: Path, writer: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(net_changes, "MIN_APPEND_ROWS", 10)
    truth = make_topic(folder, wild(seed))
    job_file = write_job(folder, folder / "topic", f'batch-rows = 200\nwriter = "{writer}"')
    chance = random.Random(seed)
    left = iter(range(12))
    died = run_with_deaths(job_file, lambda _: chance.random() < 0.12 and next(left, None) is not None, monkeypatch)
    assert len(died) >= 5, died
    assert set(died) <= WRITERS[writer]
    assert not {name: reported for name, reported in compare(job_file, truth).items() if reported}


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
X, Y = table(10, V, name="x"), table(40, V, name="y")
X1 = msgspec.structs.replace(X, columns=(*X.columns, C), version=50)


def update(of: Table, ts: int, before: dict[str, str | None], **row: str | None) -> RowChange:
    return RowChange(op="update", table=of, commit_ts=ts, before=before, after=before | row)


def delete(of: Table, ts: int, **row: str | None) -> RowChange:
    return RowChange(op="delete", table=of, commit_ts=ts, before=row)


def create(of: Table, ts: int) -> Change:
    return ddl("CREATE", ts, f"CREATE TABLE `{of.name}` (`id` INT PRIMARY KEY,`v` INT DEFAULT 7)", of)


FIRST: tuple[Change, ...] = (
    *(create(one, 10) for one in (T, U, W)),
    *(insert(one, 20 + at, id=str(at), v=str(at)) for one in (T, U, W) for at in range(1, 5)),
    *(Bootstrap(X), insert(X, 22, id="1", v="1")),
    Watermark(30),
)
"""Four tables as they are found; one was there before the changefeed."""
SECOND: tuple[Change, ...] = (
    *(change for one in (T, U, W) for change in (
        insert(one, 40, id="5", v=None), insert(one, 41, id="6", v="6"), insert(one, 42, id="7", v="7"),
        update(one, 43, {"id": "1", "v": "1"}, v="11"), delete(one, 44, id="2", v="2"),
    )),
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
    # No DDL made a column, or a table.
    *(Bootstrap(X1), insert(X1, 52, id="2", v="2", c="2")),
    *(Bootstrap(Y), insert(Y, 52, id="1", v="1")),
    Watermark(100),
)  # fmt: skip
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
    "x": [{"id": 1, "v": 1, "c": None}, {"id": 2, "v": 2, "c": 2}],
    "y": [{"id": 1, "v": 1}],
}


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


@pytest.mark.parametrize("writer", WRITERS)
def test_a_job_may_die_at_every_point_and_after_every_commit(
    spark: SparkSession, folder: Path, writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(net_changes, "MIN_APPEND_ROWS", 3)
    job_file = before_the_batch(folder, writer)
    once = set(STEPS)
    last = ""

    def dies(name: str) -> bool:
        """After every commit to a table, and once at the points between: what is not committed is done again."""
        nonlocal last
        here = name in once or (name in POINTS - STEPS and (name, last) != ("write", "write"))
        once.discard(name)
        last = name if here else last
        return here

    died = run_with_deaths(job_file, dies, monkeypatch)
    assert set(died) == WRITERS[writer], died
    assert len(died) > 15
    assert tables(spark, folder) == END


def at_first(point: str) -> Callable[[str], bool]:
    """Dies the first time that a point is passed."""
    left = {point}

    def dies(name: str) -> bool:
        here = name in left
        left.discard(name)
        return here

    return dies


def _saves_progress_before_it_applies(patch: pytest.MonkeyPatch) -> None:
    ours = Steps._apply

    def apply(steps: Steps, number: int, decided: Decided) -> TimelineResult:
        progress = decided.advanced.progress
        states = {(table.schema, table.name): table for table in progress.tables}
        steps.store.save(committed(progress, number, states, decided.resolved, 0.0, 0.0))
        return ours(steps, number, decided)

    patch.setattr(Steps, "_apply", apply)


def _forgets_marks(patch: pytest.MonkeyPatch) -> None:
    """After a restart the state of a table is that of the progress."""
    ours = look_at

    def look(sink: Sink, job: Job, name: TableName, promise: TableState | None, *, arrival: bool = False) -> Looked:
        looked = ours(sink, job, name, promise, arrival=arrival)
        if promise is None or looked.stamp is None:
            return looked
        stamp = msgspec.structs.replace(looked.stamp, mark=(promise.applied, 0))
        return msgspec.structs.replace(looked, state=promise, stamp=stamp)

    patch.setattr(batch_module, "look_at", look)


ROWS_ONLY: tuple[Change, ...] = (
    insert(T, 40, id="5", v="5"),
    insert(T, 41, id="6", v="6"),
    update(T, 42, {"id": "1", "v": "1"}, v="11"),
    delete(T, 43, id="2", v="2"),
    Watermark(100),
)
ROWS_END = [{"id": at, "v": 11 if at == 1 else at} for at in (1, 3, 4, 5, 6)]


@pytest.mark.parametrize(
    ("breaks", "point"),
    [(None, "advance"), (None, "merge"), (_saves_progress_before_it_applies, "write"), (_forgets_marks, "merge")],
    ids=["holds-1", "holds-2", "progress saved before apply", "marks forgotten"],
)
def test_i1_holds_and_the_check_sees_when_it_does_not(
    spark: SparkSession,
    folder: Path,
    breaks: Callable[[pytest.MonkeyPatch], None] | None,
    point: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job_file = write_job(folder, topic(folder, FIRST))
    replicate(job_file)
    topic(folder, [*FIRST, *ROWS_ONLY])
    if breaks is not None:
        breaks(monkeypatch)
    assert run_with_deaths(job_file, at_first(point), monkeypatch) == [point]
    assert (tables(spark, folder)["t"] == ROWS_END) == (breaks is None)
