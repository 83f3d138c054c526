"""Which tables a registry's schemas describe, of Avro and of Debezium in Avro."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.support.avro_examples import Registry
from ticdc_spark.ddl.known_names import Names
from ticdc_spark.model import Column, Index, RowChange, Table
from ticdc_spark.mysql import handle_key, parse_type
from ticdc_spark.protocols.avro.encode import AvroConfig
from ticdc_spark.protocols.avro.encode import encoder as avro
from ticdc_spark.protocols.debezium_avro.encode import DebeziumAvroConfig
from ticdc_spark.protocols.debezium_avro.encode import encoder as debezium_avro
from ticdc_spark.replicate.schemas.registered import Registered, restrict_columns
from ticdc_spark.replicate.state.progress import PendingRows, Progress
from ticdc_spark.spark.decode.control import ControlEvent, RowCounts, RowsRead, SchemaIds, SchemaIdsRead
from ticdc_spark.wire.confluent import schema_id

PRIMARY = Index(name="primary", unique=True, primary=True, nullable=False, columns=("id",))


def table(name: str, *more: str) -> Table:
    columns = (Column(name="id", type=parse_type("int"), nullable=False),)
    columns += tuple(Column(name=column, type=parse_type("int"), nullable=True) for column in more)
    return Table(schema="a db", name=name, columns=columns, indexes=(PRIMARY,))


PLACE: dict[str, Any] = {"topic": "t", "partition": 0, "offset": -1, "seq": 0}


def named(ids: SchemaIds) -> ControlEvent:
    return SchemaIdsRead(**PLACE, ids=ids)


def rows(schema: str, name: str, key: str) -> ControlEvent:
    about = {"schema": schema, "table": name, "schema_key": key, "sent": (schema, name)}
    return RowsRead(**PLACE, **about, summary=RowCounts(rows=1))


def scanned(protocol: str, *tables: Table) -> tuple[Registered, list[ControlEvent]]:
    """What a scan returns for a row of each table."""
    registry, controls = Registry(), []
    to = debezium_avro(DebeziumAvroConfig(), registry) if protocol != "avro" else avro(AvroConfig(), registry)
    for of in tables:
        row = {column.name: "1" for column in of.columns}
        (one,) = to.rows([RowChange(op="insert", table=of, commit_ts=1 << 20, after=row)])
        assert one.key is not None and one.value is not None
        ids = SchemaIds(schema_id(one.key), schema_id(one.value))
        controls.append(named(ids))
        controls.append(rows(of.schema, of.name, str(ids.value)))
    registered = Registered(registry.schemas)
    registered.protocol = protocol
    assert registered.learn(controls)
    return registered, controls


def test_debeziums_tables_are_named_as_their_rows_are() -> None:
    registered, controls = scanned("debezium-avro", table("a.b"), table("a.b", "more"), table("c"))
    found = registered.tables(controls)
    assert [(known.schema, known.name, known.key) for known in found] == [
        ("a db", "a.b", "2"),
        ("a db", "a.b", "3"),
        ("a db", "c", "5"),
    ]
    assert [column.name for column in found[1].table.columns] == ["id", "more"]
    assert {handle_key(known.table) for known in found} == {("id",)}


def test_avros_tables_are_named_by_their_schemas() -> None:
    registered, controls = scanned("avro", table("c"))
    (known,) = registered.tables(controls)
    assert (known.schema, known.name, known.key) == ("a_db", "c", "2")


def test_tables_have_the_names_by_which_their_rows_land() -> None:
    registered, controls = scanned("avro", table("c"))
    (known,) = registered.tables(controls, Names(tables=(("A_db", "C"),)))
    assert (known.schema, known.name, known.table.schema, known.table.name) == ("A_db", "C", "A_db", "C")


def test_deletes_among_watermarks_name_a_schema_of_keys() -> None:
    registered, controls = scanned("avro", table("c", "more"))
    deleted = rows("a_db", "c", "1")
    by_values = registered.add_schemas(Progress(job="j"), [*controls, deleted], None)
    assert [known.key for known in by_values.schemas] == ["2"]
    reported = registered.add_schemas(Progress(job="j"), [*controls, deleted], "watermark")
    assert {known.key: len(known.table.columns) for known in reported.schemas if known.name == "c"} == {"2": 2, "1": 1}
    pending = PendingRows(
        first=0, end=9, schema="a_db", name="c", schema_key="1", rows=1, min_ts=1, max_ts=1, topic="t", partition=0
    )
    later = registered.add_schemas(msgspec.structs.replace(Progress(job="j"), pending=(pending,)), [], "watermark")
    assert [(known.name, known.key) for known in later.schemas] == [("c", "1")]
    assert registered.add_schemas(reported, [*controls, deleted], "watermark") == reported
    assert restrict_columns(later.schemas[0].table, table("c", "more", "other")).columns == table("c").columns


def test_schemas_that_are_none_of_debeziums_give_no_table() -> None:
    registered, controls = scanned("avro", table("c"))
    registered.protocol = "debezium-avro"
    assert registered.tables(controls) == []


def test_a_schema_without_rows_gives_no_table() -> None:
    registered, controls = scanned("debezium-avro", table("c"))
    assert registered.tables([event for event in controls if not isinstance(event, RowsRead)]) == []


def test_of_two_keys_beside_one_value_the_older_counts_however_they_come() -> None:
    registered, controls = scanned("debezium-avro", table("c"))
    (known,) = registered.tables(controls)
    keyless = SchemaIds(None, int(known.key))
    later = SchemaIds(99, int(known.key))
    more = [named(pair) for pair in (keyless, later)]
    for order in ([*controls, *more], [*more, *controls]):
        assert registered.tables(order) == [known]
