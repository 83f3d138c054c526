"""Row changes to messages without Spark: compared with each protocol's own encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.support.avro_examples import Registry
from tests.support.strategies import EVERYTHING, WIRES, ZONE, changes_of
from ticdc_spark.errors import IncompatibleSchema, MessageError, RegistryFault, UsageError
from ticdc_spark.model import Column, Envelope, Index, RowChange, Table
from ticdc_spark.mysql import parse_type
from ticdc_spark.protocols import PROTOCOLS
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.protocols.simple import decode as simple
from ticdc_spark.protocols.simple.encode import encoder as simple_encoder
from ticdc_spark.spark.decode.rows import BadRow
from ticdc_spark.spark.encode.messages import (
    CHANGE_COLUMNS,
    ENCODED_SCHEMA,
    UNWRITABLE,
    EncodePlan,
    RawImages,
    TypedImages,
    encode_rows,
)
from ticdc_spark.spark.encode.plan import plan_encoding
from ticdc_spark.spark.types import LakeOptions, arrow_type, lake_columns, to_arrow

OF_DEBEZIUM = next(wire for wire in WIRES if wire.name == "debezium")
RAW = RawImages(protocol="simple")
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "debezium": {},
    "debezium-avro": {"avro-bigint-unsigned-handling-mode": "string"},
}
"""Where there is no time zone to give."""
TABLE = Table(
    schema="s",
    name="t",
    columns=(
        Column(name="id", type=parse_type("int"), nullable=False),
        Column(name="e", type=parse_type("enum('a','b')")),
        Column(name="at", type=parse_type("datetime")),
    ),
    indexes=(Index(name="PRIMARY", unique=True, primary=True, nullable=False, columns=("id",)),),
    version=3,
)
Rows = list[dict[str, Any]]


def options(protocol: str) -> Mapping[str, str]:
    return OPTIONS.get(protocol, {"time-zone": ZONE})


def batch_of(changes: Sequence[RowChange], **columns: Sequence[Any]) -> pa.RecordBatch:
    """Changes as the change log has them, sent in Simple; ``columns`` in place of its own."""
    rows = []
    for at, (change, sent) in enumerate(zip(changes, simple_encoder().rows(changes), strict=True)):
        (event,) = simple.DECODER.open_message(sent.key, sent.value)
        assert isinstance(event, Envelope)
        reported = msgspec.structs.asdict(event)
        rows.append({**reported, "topic": "x", "partition": 0, "offset": at, "seq": 0, "table_id": change.table_id})
    for name, cells in columns.items():
        for row, cell in zip(rows, cells, strict=True):
            row[name] = cell
    kinds = [pa.string(), pa.int32(), pa.int64(), pa.int32(), *[pa.string()] * 3, pa.int64(), pa.string(), pa.int64()]
    schema = pa.schema(list(zip(CHANGE_COLUMNS, [*kinds, pa.bool_(), pa.binary(), pa.binary()], strict=True)))
    return pa.RecordBatch.from_pylist(rows, schema=schema)


def typed(batch: pa.RecordBatch, changes: Sequence[RowChange], table: Table) -> tuple[pa.RecordBatch, TypedImages]:
    """The same with images of typed columns."""
    columns = lake_columns(table, (), LakeOptions())
    fields = [pa.field(column.name, arrow_type(column.type)) for column in columns]
    arrays = []
    for side in ("before", "after"):
        images = [getattr(change, side) for change in changes]
        cells = [to_arrow(c, LakeOptions())([image and image[c.source] for image in images])[0] for c in columns]
        mask = pa.array([image is None for image in images])
        arrays.append(pa.StructArray.from_arrays(cells, fields=fields, mask=mask))
    whole = pa.RecordBatch.from_arrays([*batch.columns[:-2], *arrays], names=list(CHANGE_COLUMNS))
    return whole, TypedImages(columns=columns)


def plan_of(protocol: str, images: RawImages | TypedImages = RAW, table: Table = TABLE, **more: Any) -> EncodePlan:
    key = "" if isinstance(images, TypedImages) else str(table.version)
    registry = Registry() if PROTOCOLS[protocol].traits.registry else None
    tables = {(table.schema, table.name, key): table}
    return plan_encoding(protocol, options(protocol), tables, images, registry, **more)


def encode(plan: EncodePlan, *batches: pa.RecordBatch) -> Rows:
    found = list(encode_rows(plan)(batches))
    assert all(batch.schema == ENCODED_SCHEMA for batch in found)
    return [row for batch in found for row in batch.to_pylist()]


def expected(protocol: str, changes: Sequence[RowChange]) -> list[tuple[bytes | None, bytes | None, int]]:
    to = target_encoder(protocol, options(protocol), Registry() if PROTOCOLS[protocol].traits.registry else None)
    return [(one.key, one.value, one.rows) for one in to.rows(changes)]


def seen(rows: Rows) -> list[tuple[bytes | None, bytes | None, int]]:
    assert [row["bad"] for row in rows] == [None] * len(rows)
    return [(row["key"], row["value"], row["rows"]) for row in rows]


def insert(number: int, **more: Any) -> RowChange:
    row = {"id": str(number), "e": "1", "at": "2024-01-01 00:00:00", **more}
    return RowChange(op="insert", table=TABLE, commit_ts=100 + number, after=row)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@settings(max_examples=8)
@given(data=st.data())
def test_raw_and_typed_images_become_what_the_encoder_writes(protocol: str, data: st.DataObject) -> None:
    wire = replace_enum(OF_DEBEZIUM) if protocol.endswith("avro") else OF_DEBEZIUM
    changes = changes_of(EVERYTHING, data.draw(wire.rows(EVERYTHING, 3)), 1 << 40)
    raw = batch_of(changes)
    structs, images = typed(raw.set_column(8, "schema_key", pa.array([""] * 3)), changes, EVERYTHING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)
        written = expected(protocol, changes)
        assert seen(encode(plan_of(protocol, table=EVERYTHING), raw)) == written
        assert seen(encode(plan_of(protocol, images, EVERYTHING), structs)) == written


def replace_enum(wire: Any) -> Any:
    """Without index 0, which has no name in Avro."""
    from dataclasses import replace as changed

    return changed(wire, values=lambda kind: st.just("1") if kind.name == "enum" else OF_DEBEZIUM.values(kind))


def test_messages_are_made_for_each_topic_and_partition() -> None:
    changes = [insert(number) for number in range(6)]
    batch = batch_of(changes, topic=list("xxyxyx"), partition=[0, 1, 0, 0, 0, 0])
    rows = encode(plan_of("open"), batch, batch.slice(0, 0))
    found = [(row["topic"], row["partition"], row["rows"], row["commit_ts"]) for row in rows]
    assert found == [("x", 0, 3, 105), ("x", 1, 1, 101), ("y", 0, 2, 104)]
    x, _, y = seen(rows)
    assert [x] == expected("open", [changes[at] for at in (0, 3, 5)])
    assert [y] == expected("open", [changes[at] for at in (2, 4)])


def test_each_version_of_a_table_is_written_as_it_was() -> None:
    older = replace(TABLE, columns=TABLE.columns[:2], version=2)
    first = RowChange(op="insert", table=older, commit_ts=1, after={"id": "1", "e": "2"})
    tables = {("s", "t", "2"): older, ("s", "t", "3"): TABLE}
    registry = Registry()
    plan = plan_encoding("avro", {}, tables, RAW, registry)
    assert len(registry.ids) == 3  # both have the same key
    to = target_encoder("avro", {}, registry)
    changes = [insert(2), first, insert(3)]
    assert seen(encode(plan, batch_of(changes))) == [(one.key, one.value, 1) for one in to.rows(changes)]


def test_an_upsert_is_an_insert_where_there_is_no_such_thing() -> None:
    batch = batch_of([insert(1)], op=["upsert"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000)
        assert seen(encode(plan_of("canal-json"), batch)) == expected("canal-json", [insert(1)])


def test_what_cannot_be_read_or_written_is_reported_with_its_place_and_column() -> None:
    changes = [insert(0), insert(1, e="0"), insert(2), insert(3), insert(4)]
    images = list(batch_of(changes).column("after").to_pylist())
    images[2] = images[2].replace(b'"2"', b'"x"')
    batch = batch_of(changes, after=images, schema_key=["3", "3", "3", "3", "9"])
    rows = encode(plan_of("avro", strict=False), batch)
    assert [(row["key"], row["value"], row["rows"]) for row in rows if row["bad"] is None] == expected(
        "avro", [changes[0], changes[3]]
    )
    bad = [msgspec.json.decode(row["bad"], type=BadRow) for row in rows if row["bad"]]
    assert [(one.offset, one.commit_ts) for one in bad] == [(1, 101), (2, 102), (4, 104)]
    assert [one.reason for one in bad] == [
        "`s`.`t`: ENUM index 0 has no name to send in Avro (column `e`)",
        "`s`.`t`: invalid literal for int() with base 10: 'x' (column `id`)",
        "no schema for `s`.`t`, schema key '9'",
    ]


def test_a_typed_value_that_mysql_has_not_is_reported() -> None:
    changes = [insert(1), insert(2)]
    batch, images = typed(batch_of(changes, schema_key=["", ""]), changes, TABLE)
    struct = batch.column("after")
    arrays = [struct.field("id"), pa.array(["a", "c"]), struct.field("at")]
    batch = batch.set_column(12, "after", pa.StructArray.from_arrays(arrays, names=["id", "e", "at"]))
    good, bad = encode(plan_of("open", images, strict=False), batch)
    assert good["rows"] == 1 and good["bad"] is None
    assert "`s`.`t`: column `e`: 'c' is no member of ENUM" in bad["bad"]


def test_one_bad_row_fails_a_strict_task() -> None:
    with pytest.raises(MessageError, match=UNWRITABLE) as caught:
        encode(plan_of("debezium"), batch_of([insert(1), insert(2, at="2024-13-01 00:00:00")]))
    assert '"offset":1' in str(caught.value)
    assert "column `at`" in str(caught.value)


def test_a_row_that_is_too_large_blames_no_column() -> None:
    plan = replace(plan_of("simple", strict=False), options={"max-message-bytes": "100"})
    (row,) = encode(plan, batch_of([insert(1)]))
    assert "a row of `s`.`t` takes" in row["bad"] and "column" not in row["bad"]


class Refusing:
    def register(self, subject: str, schema: str) -> int:
        raise IncompatibleSchema(subject)


def test_schemas_are_registered_by_the_driver_alone() -> None:
    tables = {("s", "t", "3"): TABLE}
    with pytest.raises(IncompatibleSchema):
        plan_encoding("avro", {}, tables, RAW, Refusing())
    with pytest.raises(RegistryFault, match="has not registered"):
        encode(replace(plan_of("avro"), ids={}), batch_of([insert(1)]))


def test_rows_of_a_table_that_cannot_be_written_are_reported() -> None:
    keyless = replace(TABLE, indexes=())
    (row,) = encode(plan_of("avro", table=keyless, strict=False), batch_of([replace(insert(1), table=keyless)]))
    assert "`s`.`t` has no handle key" in row["bad"]


@pytest.mark.parametrize(
    ("protocol", "reported", "table", "images", "word"),
    [
        ("csv", {}, TABLE, RAW, "allowed: avro, "),
        ("open", {"max-batch": "1"}, TABLE, RAW, "max-batch"),
        ("avro", {}, TABLE, RAW, "--schema-registry"),
        ("simple", {}, replace(TABLE, version=None), RAW, "`s`.`t` has none"),
        ("open", {}, TABLE, RawImages(protocol="simple", options=ReadOptions(verify_checksum=True)), "checksums"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_before_any_task(
    protocol: str, reported: dict[str, str], table: Table, images: RawImages, word: str
) -> None:
    with pytest.raises(UsageError, match=word):
        plan_encoding(protocol, reported, {("s", "t", "3"): table}, images)
