"""Which ranges of which tables are read next, and what comes of a wave."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ticdc_spark.capture.base import CapturedDdl, CaptureState, follow
from ticdc_spark.capture.snapshot.keys import Range, read_key
from ticdc_spark.capture.snapshot.present import Present, same_rows
from ticdc_spark.changefeed.snapshot.note import ReadNote
from ticdc_spark.changefeed.snapshot.plan import PartSent, Wave, fold_wave, plan_wave
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import SchemaChange, Table, TableName

KEYED = "CREATE TABLE {name} (id INT PRIMARY KEY, v INT)"


def made(name: str, create: str = KEYED) -> Table:
    return parse_create(create.format(name=name), "d", "escape")


class Tables:
    """Tables with so many rows, whose keys count from 1."""

    def __init__(self, rows: dict[str, int], creates: dict[str, str] | None = None) -> None:
        self.rows, self.creates = rows, creates or {}
        self.ids: dict[str, str] = {}
        """Of tables that are not named as at the beginning."""

    def look(self, name: TableName) -> Present | None:
        if name[1] not in self.rows:
            return None
        create = self.creates.get(name[1], KEYED).format(name=name[1])
        return Present(parse_create(create, "d", "escape"), create, identity=self.ids.get(name[1], name[1]))

    def check(self) -> None:
        return

    def identities(self, position: str, names: Sequence[TableName]) -> dict[TableName, str]:
        return {name: self.ids.get(name[1], name[1]) for name in names if name[1] in self.rows}

    def estimate(self, name: TableName) -> int:
        return self.rows[name[1]]

    def now(self) -> int:
        return 500

    def ranges(self, found: Present, upto: str, rows: int, count: int) -> Sequence[Range]:
        above = read_key(upto)
        at, planned = 0 if above is None else int(str(above[0])), []
        while len(planned) < count:
            end = at + rows
            more = end <= self.rows[found.table.name]
            planned.append(Range((str(at),) if at else None, (str(end),) if more else None))
            if not more:
                break
            at = end
        return planned

    def close(self) -> None:
        return


def state(*names: str, tables: dict[str, Table] | None = None) -> CaptureState:
    known = {name: made(name) for name in names} | (tables or {})
    return CaptureState(
        position="p", commit_ts=100, tables=tuple(known.values()), unread=tuple(("d", name) for name in names)
    )


def plan(at: CaptureState, note: ReadNote, tables: Tables, left_out: str = "") -> Wave:
    if note.tables is None:
        note = replace(note, tables=tuple((name, name[1]) for name in at.unread))
    return plan_wave(
        at, note, (), tables, lambda table: "no rule" if table.name == left_out else "", parts=4, chunk_rows=10
    )


def sent(wave: Wave, *moved: int) -> list[PartSent]:
    return [
        PartSent(moved="altered" if at in moved else "", rows=0 if at in moved else 3) for at in range(len(wave.parts))
    ]


def test_small_tables_share_a_wave_and_a_large_one_goes_on_in_the_next() -> None:
    at, note, tables = state("a", "b", "c", "e"), ReadNote(base=100), Tables({"a": 5, "b": 0, "c": 35, "e": 5})
    wave = plan(at, note, tables)
    assert [(one.name[1], one.parts, bool(one.upto)) for one in wave.stretches] == [
        ("a", 1, False),
        ("b", 1, False),
        ("c", 2, True),
    ]
    at, note, moved = fold_wave(at, note, wave, sent(wave), 400)
    assert at.unread == (("d", "c"), ("d", "e")) and not moved
    assert (note.table, note.rows, note.total, note.settles) == (("d", "c"), 6, 12, 400)
    wave = plan(at, note, tables)
    assert [(one.name[1], one.parts, one.goes_on) for one in wave.stretches] == [("c", 2, True), ("e", 1, False)]
    assert wave.parts[0].of.above == ("20",) and wave.parts[1].of.upto is None
    at, note, _ = fold_wave(at, note, wave, sent(wave), 300)
    assert at.unread == () and note.table == ("", "") and note.settles == 400, "a clock that goes back settles nothing"
    assert plan(at, note, tables).parts == ()


def test_a_table_that_moved_in_one_of_its_parts_is_read_from_its_beginning() -> None:
    at, note, tables = state("a", "b"), ReadNote(base=100), Tables({"a": 95, "b": 3})
    wave = plan(at, note, tables)
    at, note, _ = fold_wave(at, note, wave, sent(wave), 400)
    assert note.upto
    wave = plan(at, note, tables)
    after, note, moved = fold_wave(at, note, wave, sent(wave, 2), 401)
    assert moved == {("d", "a"): "altered"} and after.unread == at.unread
    assert note.upto == "" and note.table == ("", "")
    assert plan(after, note, tables).parts[0].of.above is None


def test_a_table_of_another_shape_is_read_from_its_beginning() -> None:
    at, note, tables = state("a"), ReadNote(base=100), Tables({"a": 95})
    wave = plan(at, note, tables)
    at, note, _ = fold_wave(at, note, wave, sent(wave), 400)
    more = KEYED.replace("v INT", "v INT, w INT")
    tables.creates["a"] = more
    assert plan(at, note, tables).later == {("d", "a"): "it was altered"}, "the changes do not include the DDL"
    wave = plan(replace(at, tables=(made("a", more),)), note, tables)
    assert not wave.stretches[0].goes_on and wave.parts[0].of.above is None


def test_a_table_that_took_a_name_is_not_read_in_place_of_the_one_that_had_it() -> None:
    at, note, tables = state("a", "b"), ReadNote(base=100), Tables({"a": 95, "b": 3})
    wave = plan(at, note, tables)
    at, note, _ = fold_wave(at, note, wave, sent(wave), 400)
    tables.ids["a"] = "another"
    wave = plan(at, note, tables)
    assert "another table has its name now" in wave.later["d", "a"]
    assert [one.name[1] for one in wave.stretches] == ["b"]
    following = plan(at, replace(note, tables=((("d", "a"), "another"),)), tables)
    assert not following.stretches[0].goes_on, "what was read of the other table is no part of it"
    unknown = plan(at, replace(note, tables=((("d", "b"), "b"),)), tables)
    assert "a DDL that names it" in unknown.later["d", "a"], "which table had the name at the base is not known"


def test_what_is_never_read_is_named() -> None:
    keyless = made("k", "CREATE TABLE {name} (v INT)")
    at = state("k", "out", "gone", "none", tables={"k": keyless})
    at = replace(at, unread=(*at.unread, ("d", "unknown")))
    wave = plan(at, ReadNote(base=100), Tables({"k": 1, "out": 1, "none": 0}), left_out="out")
    assert wave.over.keys() == {("d", "k"), ("d", "out"), ("d", "unknown")}
    assert "no key" in wave.over["d", "k"] and wave.over["d", "out"] == "no rule"
    assert wave.later.keys() == {("d", "gone")}
    assert [one.name[1] for one in wave.stretches] == ["none"]


def ddl(kind: str, *pairs: tuple[str | None, str | None]) -> CapturedDdl:
    changes = tuple(
        SchemaChange(
            commit_ts=200,
            query="",
            kind=kind,
            schema="d",
            pre_table=made(one) if one else None,
            table=made(other) if other else None,
        )
        for one, other in pairs
    )
    return CapturedDdl(commit_ts=200, changes=changes, position="q")


def test_what_is_unread_follows_renames_and_drops() -> None:
    at = state("a", "b", "c")
    assert follow(at, ddl("rename table", ("a", "b"), ("b", "a"))).unread == (("d", "b"), ("d", "a"), ("d", "c"))
    assert follow(at, ddl("rename table", ("a", "x"))).unread == (("d", "x"), ("d", "b"), ("d", "c"))
    assert follow(at, ddl("drop table", ("a", None), ("c", None))).unread == (("d", "b"),)
    assert follow(at, ddl("create table", ("a", None), (None, "a"))).unread == (("d", "b"), ("d", "c")), (
        "it has new rows"
    )
    assert follow(at, ddl("alter table", ("a", "a"))).unread == at.unread
    assert follow(at, ddl("drop database", (None, None))).unread == ()


def test_versions_of_a_table_whose_rows_look_alike() -> None:
    base = made("t", "CREATE TABLE t (id INT(11), v VARCHAR(10), d DECIMAL(9,2), e ENUM('a','b'), PRIMARY KEY (id))")

    def other(create: str) -> Table:
        return made("t", f"CREATE TABLE t ({create})")

    key = "PRIMARY KEY (id)"
    assert same_rows(base, other(f"id INT(5), v VARCHAR(10), d DECIMAL(9,2), e ENUM('a','b'), KEY (v), {key}"))
    assert same_rows(base, other(f"id INT, v VARCHAR(10) COLLATE utf8mb4_bin, d DECIMAL(9,2), e ENUM('a','b'), {key}"))
    for create in (
        f"id BIGINT, v VARCHAR(10), d DECIMAL(9,2), e ENUM('a','b'), {key}",
        f"id INT UNSIGNED, v VARCHAR(10), d DECIMAL(9,2), e ENUM('a','b'), {key}",
        f"id INT, v VARCHAR(11), d DECIMAL(9,2), e ENUM('a','b'), {key}",
        f"id INT, v VARCHAR(10), d DECIMAL(9,3), e ENUM('a','b'), {key}",
        f"id INT, v VARCHAR(10), d DECIMAL(9,2), e ENUM('b','a'), {key}",
        f"id INT, d DECIMAL(9,2), v VARCHAR(10), e ENUM('a','b'), {key}",
        f"id INT, v VARCHAR(10), d DECIMAL(9,2), {key}",
        f"id INT, v VARCHAR(10), d DECIMAL(9,2) AS (id), e ENUM('a','b'), {key}",
        "id INT, v VARCHAR(10), d DECIMAL(9,2), e ENUM('a','b'), PRIMARY KEY (id, v)",
    ):
        assert not same_rows(base, other(create)), create


def test_rows_that_are_read_have_the_id_of_their_table_and_a_version_of_one_schema() -> None:
    known = replace(made("t"), table_id=7, version=90)
    at = replace(state("t"), tables=(known,))
    (part,) = plan(at, ReadNote(), Tables({"t": 3})).parts
    assert part.found.table == known
    # what is found may be of a DDL that is still to come
    other = "CREATE TABLE {name} (id INT PRIMARY KEY, v INT NOT NULL)"
    (part,) = plan(at, ReadNote(), Tables({"t": 3}, {"t": other})).parts
    assert part.found.table == replace(made("t", other), table_id=7, version=100)
