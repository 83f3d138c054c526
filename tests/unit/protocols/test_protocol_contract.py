"""What every member of ``PROTOCOLS`` keeps: its codec both ways, and traits that are true of what it sends.

Types, forms and damaged messages of each are the matter of ``test_round_trips.py`` and ``test_fuzz.py``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.avro_examples import Registry
from ticdc_spark.errors import MessageError, UsageError
from ticdc_spark.model import (
    Bootstrap,
    Change,
    Column,
    Envelope,
    Event,
    Index,
    Message,
    Rejected,
    RowChange,
    SchemaChange,
    Table,
    Watermark,
)
from ticdc_spark.mysql import parse_type
from ticdc_spark.protocols import ALIASES, PROTOCOLS, DecoderOptions, WireProtocol, canonical, decoder, protocol
from ticdc_spark.protocols.base import BLOCK_MARK, Decoder, Encoded, Encoder, ReadOptions, decode, read_envelope
from ticdc_spark.protocols.encoder_options import target_encoder
from ticdc_spark.protocols.shared.avro_names import sanitized
from ticdc_spark.streams.detect import detect
from ticdc_spark.streams.reader import EventReader

Any_ = WireProtocol[Any]
TS = 470606137174523905
UTC = ReadOptions(source_timezone="UTC")
KEY = Index(name="PRIMARY", unique=True, primary=True, nullable=False, columns=("id",))


def table_of(*columns: str, name: str = "t") -> Table:
    """A table with a key and more columns, each ``name type``."""
    more = (column.rsplit(maxsplit=1) for column in columns)
    return Table(
        schema="shop",
        name=name,
        columns=(
            Column(name="id", type=parse_type("bigint"), nullable=False),
            *(Column(name=column, type=parse_type(kind)) for column, kind in more),
        ),
        indexes=(KEY,),
        version=9,
    )


TABLE = table_of("note varchar(32)", "at datetime")
OLD = {"id": "7", "note": "a <b> é", "at": "2026-01-31 12:00:00"}
NEW = {"id": "7", "note": None, "at": "1999-12-31 23:59:59"}
CHANGES = (
    RowChange(op="insert", table=TABLE, commit_ts=TS, after=OLD),
    RowChange(op="update", table=TABLE, commit_ts=TS + 1, before=OLD, after=NEW),
    RowChange(op="delete", table=TABLE, commit_ts=TS + 2, before=NEW),
)
INSERT = CHANGES[0]
DDL = SchemaChange(
    commit_ts=TS,
    query="ALTER TABLE `t` ADD COLUMN `more` INT",
    kind="ALTER",
    schema="shop",
    name="t",
    table=table_of("note varchar(32)", "at datetime", "more int"),
    pre_table=TABLE,
)


class Wire:
    """A protocol's two ends, and the registry between them where it has one."""

    def __init__(self, of: Any_, **options: str) -> None:
        self.of = of
        self.registry = Registry() if of.traits.registry else None
        self.to = target_encoder(
            of.name, {name.replace("_", "-"): text for name, text in options.items()}, self.registry
        )

    def schemas(self) -> dict[int, str] | None:
        return None if self.registry is None else self.registry.schemas

    def decoder(self, *, block_keys: bool = False) -> Decoder:
        return self.of.decoder(DecoderOptions(schemas=self.schemas(), block_keys=block_keys))

    def send(self, *changes: RowChange) -> list[Encoded]:
        return list(self.to.rows(changes))

    def envelopes(self, sent: list[Encoded]) -> list[Envelope]:
        events = [event for one in sent for event in self.decoder().open_message(one.key, one.value)]
        assert all(isinstance(event, Envelope) for event in events)
        return events  # type: ignore[return-value]

    def table(self, one: Encoded, envelope: Envelope, table: Table) -> Table:
        """The schema to read a row with: the true one, or a registry's where names are sanitised there."""
        tables = self.of.row_tables(self.schemas()) if self.of.traits.sanitised_names else None
        return table if tables is None else tables(one.key, one.value, envelope)

    def receive(self, sent: list[Encoded], table: Table = TABLE, options: ReadOptions = UTC) -> list[Change | Rejected]:
        reads = self.decoder()
        return [
            read_envelope(
                reads, event, {(event.schema, event.table, event.schema_key): self.table(one, event, table)}, options
            )
            if isinstance(event, Envelope)
            else event
            for one in sent
            for event in reads.open_message(one.key, one.value)
        ]

    def name(self, name: str) -> str:
        return sanitized(name) if self.of.traits.sanitised_names else name


def message(offset: int, one: Encoded) -> Message:
    return Message(topic="t", partition=0, offset=offset, timestamp=None, key=one.key, value=one.value)


def configurations(of: Any_) -> Iterator[Any]:
    """Of a protocol's encoder: as TiCDC has it, and with one or two of its switches turned on."""
    switches = [field.name for field in msgspec.structs.fields(of.config_type()) if field.type is bool]
    for count in range(3):
        for names in combinations(switches, count):
            yield of.config_type()(**dict.fromkeys(names, True))


def encoders(of: Any_) -> Iterator[tuple[Encoder, Registry]]:
    """An encoder of each configuration, the plain one first, and its registry."""
    for config in configurations(of):
        registry = Registry()
        try:
            to = of.encoder(config, registry)
        except MessageError:
            continue  # a switch that needs others
        yield to, registry


def sent_in_some(of: Any_, send: Callable[[Encoder], Encoded | None]) -> list[Sequence[Event] | None]:
    """What is read again of what each configuration sends, the plain one first; ``None`` where it sends nothing."""
    found = []
    for to, registry in encoders(of):
        one = send(to)
        reads = of.decoder(DecoderOptions(schemas=registry.schemas))
        found.append(None if one is None else reads.open_message(one.key, one.value))
    return found


def kind_of(sent: list[Sequence[Event] | None]) -> str:
    """Whether all configurations send something, none, or some but not the plain one."""
    if None not in sent:
        return "always"
    if all(events is None for events in sent):
        return "never"
    return "optional" if sent[0] is None else "unless turned off"


@pytest.mark.parametrize("of", PROTOCOLS.values(), ids=list(PROTOCOLS))
class TestProtocol:
    """A new protocol is held to this by its line in the list."""

    def test_it_is_found_by_each_of_its_names(self, of: Any_) -> None:
        assert protocol(of.name) is PROTOCOLS[of.name] is of
        assert of.decoder().name == of.name
        for alias in of.aliases:
            assert alias not in PROTOCOLS
            assert canonical(alias) == ALIASES[alias] == of.name
            assert protocol(alias) is of

    @given(key=st.none() | st.binary(max_size=40), value=st.none() | st.binary(max_size=80))
    def test_arbitrary_bytes_are_events_or_rejected(self, of: Any_, key: bytes | None, value: bytes | None) -> None:
        reads = of.decoder(DecoderOptions(schemas={}))
        for change in decode(reads, key, value, {}):
            assert isinstance(change, (SchemaChange, Watermark, Bootstrap, Rejected))
        of.is_framed(key, value)
        of.is_json(value or b"", ())

    def test_rows_that_were_sent_are_read_again(self, of: Any_) -> None:
        wire = Wire(of)
        sent = wire.send(*CHANGES)
        assert sum(one.rows for one in sent) == len(CHANGES)
        found = wire.receive(sent)
        for change, was in zip(found, CHANGES, strict=True):
            assert isinstance(change, RowChange), change
            assert change.op == was.op or (change.op == "upsert" and was.op == "insert" and of.traits.upserts)
            assert (change.table.schema, change.table.name) == ("shop", "t")
            assert change.after == was.after
            assert change.commit_ts == was.commit_ts or (change.op == "delete" and of.traits.hidden_deletes)
            if was.op == "delete":
                assert change.before == (was.before if not change.partial else {"id": "7"})
            else:
                assert change.before in (was.before, None)

    def test_only_deletes_that_may_hide_their_commit_ts_do(self, of: Any_) -> None:
        sent = sent_in_some(of, lambda to: next(iter(to.rows(CHANGES[2:]))))
        deletes = [event for events in sent for event in events or ()]
        assert len(deletes) == len(sent)
        assert all(isinstance(event, Envelope) and event.op == "delete" for event in deletes)
        assert (
            any(isinstance(event, Envelope) and event.commit_ts == 0 for event in deletes) == of.traits.hidden_deletes
        )

    def test_an_upsert_is_sent_where_there_is_such_a_message(self, of: Any_) -> None:
        wire = Wire(of)
        upsert = msgspec.structs.replace(INSERT, op="upsert")
        if not of.traits.upserts:
            with pytest.raises(MessageError):
                wire.send(upsert)
            return
        (change,) = wire.receive(wire.send(upsert))
        assert isinstance(change, RowChange) and change.after == OLD

    def test_watermarks_are_sent_according_to_the_trait(self, of: Any_) -> None:
        sent = sent_in_some(of, lambda to: to.watermark(TS))
        assert kind_of(sent) == of.traits.watermarks
        assert all(list(events) == [Watermark(TS)] for events in sent if events is not None)

    def test_ddl_is_sent_according_to_the_trait(self, of: Any_) -> None:
        sent = sent_in_some(of, lambda to: to.ddl(DDL))
        assert kind_of(sent) == of.traits.ddl
        for events in sent:
            for change in events or ():
                assert isinstance(change, SchemaChange)
                assert change.query == DDL.query
                assert change.commit_ts >> 18 == TS >> 18

    def test_ddl_has_its_tables_according_to_the_trait(self, of: Any_) -> None:
        assert not (of.traits.ddl == "never" and of.traits.ddl_has_tables)
        for to, _ in encoders(of):
            one = to.ddl(DDL)
            if one is not None:
                (change,) = of.decoder(DecoderOptions(schemas={})).open_message(one.key, one.value)
                assert isinstance(change, SchemaChange)
                there = [*filter(None, [change.table]), *of.tables_of_ddl(one.value or b"")]
                assert len(there) == of.traits.ddl_has_tables
                for table in there:
                    assert [column.name for column in table.columns] == ["id", "note", "at", "more"]

    def test_tables_are_sent_where_rows_name_versions_of_them(self, of: Any_) -> None:
        wire = Wire(of)
        sent = wire.to.bootstrap(TABLE)
        assert (sent is not None) == of.traits.versioned_tables
        (envelope,) = wire.envelopes(wire.send(INSERT))
        if sent is not None:
            (found,) = wire.decoder().open_message(sent.key, sent.value)
            assert isinstance(found, Bootstrap) and found.table.version == TABLE.version
            assert [column.name for column in found.table.columns] == ["id", "note", "at"]
            assert envelope.schema_key == str(TABLE.version)
        elif of.traits.registry:
            assert int(envelope.schema_key) in (wire.schemas() or {})
        else:
            assert envelope.schema_key == ""

    def test_block_keys_are_given_where_there_are_blocks(self, of: Any_) -> None:
        wire = Wire(of)
        (one,) = wire.send(INSERT)
        (envelope,) = wire.decoder(block_keys=True).open_message(one.key, one.value)
        assert isinstance(envelope, Envelope)
        assert envelope.schema_key.startswith(BLOCK_MARK) == of.traits.schema_blocks
        if of.traits.schema_blocks:
            of_row = of.row_tables()
            assert of_row is not None
            assert [column.name for column in of_row(envelope.key, one.value, envelope).columns] == ["id", "note", "at"]

    def test_a_registry_is_required_where_schemas_are_there(self, of: Any_) -> None:
        (one,) = Wire(of).send(INSERT)
        if not of.traits.registry:
            of.encoder()
            of.decoder().open_message(one.key, one.value)
            return
        with pytest.raises(UsageError, match="schema-registry"):
            of.encoder()
        with pytest.raises(UsageError, match="schema-registry"):
            target_encoder(of.name, {})
        with pytest.raises(UsageError, match="registry"):
            of.decoder().open_message(one.key, one.value)

    def test_registered_schemas_have_their_tables(self, of: Any_) -> None:
        wire = Wire(of)
        (one,) = wire.send(INSERT)
        texts = [*(wire.schemas() or {1: "{}", 2: "{}"}).values()]
        tables = of.registered_tables(*texts, [("shop", "t")])
        assert [(table.schema, table.name) for table in tables] == [("shop", "t")] * of.traits.registry
        for table in tables:
            assert [column.name for column in table.columns] == ["id", "note", "at"]
            (envelope,) = wire.envelopes([one])
            key = (envelope.schema, envelope.table, envelope.schema_key)
            assert isinstance(read_envelope(wire.decoder(), envelope, {key: table}, UTC), RowChange)

    def test_names_are_those_of_the_source_but_where_they_are_sanitised(self, of: Any_) -> None:
        wire = Wire(of)
        table = table_of("a column int", name="of é")
        row = {"id": "7", "a column": "1"}
        (change,) = wire.receive(wire.send(RowChange(op="insert", table=table, commit_ts=TS, after=row)), table)
        assert isinstance(change, RowChange), change
        assert change.table.name == wire.name(table.name)
        assert change.after == {wire.name(name): value for name, value in row.items()}

    def test_a_timestamp_needs_a_zone_where_it_is_sent_without(self, of: Any_) -> None:
        wire, table = Wire(of), table_of("at timestamp")
        row = {"id": "7", "at": "2026-01-31 12:00:00"}
        sent = wire.send(RowChange(op="insert", table=table, commit_ts=TS, after=row))
        (change,) = wire.receive(sent, table)
        assert isinstance(change, RowChange) and change.after == row
        (change,) = wire.receive(sent, table, ReadOptions())
        assert isinstance(change, Rejected) == of.traits.local_timestamps

    def test_large_rows_are_kept_elsewhere_where_that_is_possible(self, of: Any_, tmp_path: Path) -> None:
        options = {
            "large_message_handle_option": "claim-check",
            "claim_check_storage_uri": str(tmp_path),
            "max_message_bytes": "700",
        }
        known = {field.name for field in msgspec.structs.fields(of.config_type())}
        assert ("store" in known) == of.traits.claim_check
        if not of.traits.claim_check:
            with pytest.raises(UsageError, match="no option"):
                Wire(of, **options)
            return
        wire = Wire(of, **options)
        large = msgspec.structs.replace(INSERT, after=OLD | {"note": "x" * 1000})
        (envelope,) = wire.envelopes(wire.send(large))
        assert envelope.claim_check and envelope.partial
        assert len([*tmp_path.iterdir()]) == 1

    def test_connector_properties_are_taken_where_connectors_write_it(self, of: Any_) -> None:
        native = {"decimal.handling.mode": "string"}
        if of.traits.connector_properties:
            assert decoder(of.name, native=native).name == of.name
            with pytest.raises(UsageError):
                decoder(of.name, native={"no.such.property": "x"})
            return
        of.decoder(DecoderOptions(connector={"no.such.property": "x"}))
        with pytest.raises(UsageError, match=r"decimal\.handling\.mode"):
            decoder(of.name, native=native)

    def test_each_of_its_messages_is_detected(self, of: Any_) -> None:
        wire = Wire(of)
        others = (wire.to.ddl(DDL), wire.to.watermark(TS), wire.to.bootstrap(TABLE))
        for one in (*wire.send(*CHANGES), *filter(None, others)):
            assert detect([(one.key, one.value)]) == of.name

    def test_a_stream_of_it_is_read_without_other_knowledge(self, of: Any_) -> None:
        wire = Wire(of)
        bootstrap = wire.to.bootstrap(TABLE)
        sent = [*([bootstrap] if bootstrap else []), *wire.send(*CHANGES[:2])]
        reader = EventReader(wire.decoder(), UTC, schemas=wire.schemas())
        found = [one.event for at, each in enumerate(sent) for one in reader.read(message(at, each))]
        rows = [
            event.after for event in [*found, *(one.event for one in reader.finish())] if isinstance(event, RowChange)
        ]
        assert [{name: (row or {}).get(name) for name in ("id", "note")} for row in rows] == [
            {"id": "7", "note": "a <b> é"},
            {"id": "7", "note": None},
        ]


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(UsageError, match=r"'kafka' is not known; allowed: avro, canal-json,"):
        protocol("kafka")
    with pytest.raises(UsageError, match="not known"):
        decoder("kafka")
    with pytest.raises(UsageError, match="not known"):
        target_encoder("kafka", {})


def test_the_list_imports_no_codec() -> None:
    code = "import sys, ticdc_spark.protocols; print(*(name for name in sys.modules if 'ticdc_spark' in name))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = {name for name in run.stdout.split() if name.count(".") > 2}
    assert loaded <= {"ticdc_spark.protocols.shared.registered"}
