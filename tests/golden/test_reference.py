"""Every vector case, in every configuration, through the reference applier to the tables that the database had.

``equality.py`` has what each protocol cannot bring back, rule by rule. With watermarks the resolved ts is theirs (mode
``watermark``); without, the end of the batch (``arrival``, ``milliseconds``); Avro's tables come from the registry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal

import pytest

from tests.golden.equality import unequal, unneeded_rules
from tests.golden.exceptions import Difference
from tests.golden.test_debezium_tables import as_truth
from tests.reference.applier import Applier, run
from tests.reference.arrival import ArrivalApplier, HiddenDeletes, Milliseconds
from tests.reference.decoders import Described, Fetched, Sanitised, schema_changes
from tests.reference.faults import interleaved, replayed, split
from tests.reference.registry import registry_applier
from tests.support.vectors import ROOT, Case, Config, _column_type, _value, cases, named, needs_vectors
from ticdc_spark.ddl.parse import parse
from ticdc_spark.ddl.statements import RestoreTable
from ticdc_spark.errors import UnsupportedDdl
from ticdc_spark.model import Column, Message, Row, SchemaChange, Table, Value
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols import decoder, protocol
from ticdc_spark.protocols.base import Decoder, ReadOptions
from ticdc_spark.protocols.shared.avro_names import sanitized

pytestmark = needs_vectors

PROTOCOL = {
    "avro": "avro",
    "canal-json": "canal-json",
    "debezium": "debezium",
    "debezium-avro": "debezium-avro",
    "open-protocol": "open",
    "simple": "simple",
}
"""A changefeed's option to our name."""
NEVER_CREATED = {"no_key"}
"""Tables that TiCDC ignored when they were created, as they had no handle key yet."""
CONFIGS = [config for case in cases() for config in case.configs]
SHUFFLED = {
    *("simple_json", "simple-json", "open", "canal_json_ext", "debezium_noschema_ext"),
    *("canal_json", "debezium_noschema", "avro", "avro_ext_watermark", "avro_precise_long", "debezium-avro"),
    "avro-watermark",
}
"""One configuration of each protocol and mode: the others differ in the bytes alone."""
every_config = pytest.mark.parametrize("config", CONFIGS, ids=str)

Mode = Literal["watermark", "arrival", "milliseconds", "registry"]


def mode(config: Config) -> Mode:
    options = config.options
    extended, marked = options["enable_tidb_extension"], options.get("avro_enable_watermark")
    match config.protocol:
        case "canal-json" if not extended:
            return "milliseconds"
        case "debezium" if not extended:
            return "arrival"
        case "debezium-avro":
            return "registry"
        case "avro" if not marked:
            return "registry"
        case "avro" if config.case.producer == "tiflow":
            return "arrival"  # its deletes hide their commit_ts
    return "watermark"


@cache
def applier(config: Config) -> type[Applier]:
    match mode(config):
        case "watermark":
            return Applier
        case "arrival":
            return HiddenDeletes if config.protocol == "avro" else ArrivalApplier
        case "milliseconds":
            return Milliseconds
        case "registry":
            return registry_applier(registered(config), policy="keep", debezium=config.protocol == "debezium-avro")


@cache
def registered(config: Config) -> dict[int, str]:
    return {entry["id"]: entry["schema"] for entry in config.schemas}


def apply(config: Config, messages: Sequence[Message] | None = None, batch_size: int | None = None) -> Applier:
    options = ReadOptions(source_timezone=config.zone)
    messages = [sent.message for sent in config.messages] if messages is None else messages
    return run(
        messages,
        of(config),
        options,
        batch_size=batch_size,
        applier=applier(config),
        keep_rejects=True,
        schemas=never_sent(config),
    )


@cache
def applied(config: Config) -> Applier:
    return apply(config)


def of(config: Config) -> Decoder:
    """The decoder. Where DDL is SQL only, it gets the schema of the tables that no SQL of theirs describes."""
    schemas = registered(config) if protocol(config.protocol).traits.registry else None
    found = decoder(PROTOCOL[config.protocol], schemas)
    if config.options.get("large_message_handle", {}).get("option") == "claim-check":
        raw = config.options["large_message_handle"]["claim_check_raw_value"]
        found = Fetched(found, config.claim_check, raw=raw, keyed=config.protocol == "open-protocol")
    if config.protocol == "simple" or mode(config) == "registry":
        return found
    if config.protocol == "avro":
        found = Sanitised(found)
    return Described(found, [change for change in changes_in_simple(config.case) if change.name in NEVER_CREATED])


@cache
def changes_in_simple(case: Case) -> list[SchemaChange]:
    simple = next(config for config in case.configs if config.name in ("simple_json", "simple-json"))
    return schema_changes((sent.message for sent in simple.messages), decoder("simple"))


def never_sent(config: Config) -> list[Table]:
    """Schemas of the tables that came back by a DDL that Debezium does not send, as an operator would give them."""
    if config.protocol != "debezium":
        return []
    changes = [change for change in changes_in_simple(config.case) if isinstance(parse(change.query), RestoreTable)]
    return [change.table for change in changes if change.table]


@cache
def final_tables(config: Config) -> dict[tuple[str, str], tuple[Table, list[Row]]]:
    """The database's tables that TiCDC replicates, without virtual columns, in normal form."""
    state: Any = json.loads((config.case.path / "final_state.json").read_text())
    tables: dict[tuple[str, str], tuple[Table, list[Row]]] = {}
    call = sanitized if config.protocol == "avro" else str
    # the new architecture's file is a bare list, and distinguishes the hexadecimal columns
    for table in state if isinstance(state, list) else state["tables"]:
        if not table.get("replicated", True):
            continue
        virtual = re.compile(r"^\s*`((?:[^`]|``)*)` .*\bVIRTUAL\b", re.MULTILINE)
        hidden = {name.replace("``", "`") for name in virtual.findall(table.get("show_create", ""))}
        hidden |= {column["name"] for column in table["columns"] if column.get("generated") == "virtual"}
        columns = [column for column in table["columns"] if not column["name"].startswith("_V$_")]
        if "hex" in table:
            columns = [{**column, "hex": is_hex} for column, is_hex in zip(columns, table["hex"], strict=True)]
        kinds = tuple(Column(name=call(column["name"]), type=_column_type(column)) for column in columns)
        rows: list[Row] = [
            {
                call(column["name"]): cell(column, value, config.zone)
                for column, value in zip(columns, cells, strict=True)
                if column["name"] not in hidden
            }
            for cells in table["rows"]
        ]
        name = (call(table["schema"]), call(table["table"]))
        tables[name] = (Table(schema=name[0], name=name[1], columns=kinds), rows)
    return tables


def cell(column: dict[str, Any], value: Any, zone: str) -> Value:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else _value({**column, "value": value}, zone)


def in_types_of(config: Config, kind: str, table: Table, truth: Table, row: Row) -> Row:
    """A row in the normal form of the types that a table was given, where it came from Debezium's rows."""
    if not config.protocol.startswith("debezium") or kind not in ("registry", "blocks"):
        return row
    decoded, kinds = ({column.name: column.type for column in found.columns} for found in (table, truth))
    return {name: as_truth(kinds[name], decoded.get(name, kinds[name]), value) for name, value in row.items()}


def differences(config: Config, applier: Applier, kind: str = "") -> Iterator[Difference]:
    """Table by table, row by row: rows are matched by handle key. ``kind`` stands for the mode, if it is another."""
    kind = kind or mode(config)
    where, expected = f"{config}:{kind}/", final_tables(config)
    for reason in applier.rejects:
        yield Difference("reject", where, reason, None)
    for name in applier.lake.tables.keys() | expected.keys():
        place = f"{where}{name[0]}.{name[1]}"
        if name not in expected or name not in applier.lake.tables:
            if applier.lake.tables.get(name, (None, True))[1]:
                yield Difference("table", place, name in applier.lake.tables, name in expected)
            continue
        table, rows = applier.lake.tables[name]
        truth, wanted = expected[name]
        wanted = [in_types_of(config, kind, table, truth, row) for row in wanted]
        key = handle_key(table) or tuple(column.name for column in truth.columns)
        visible = set(wanted[0]) if wanted else {column.name for column in truth.columns}
        actual = {
            tuple(row.get(column) for column in key): {column: row[column] for column in row if column in visible}
            for row in (named(table, row) or {} for row in rows.values())
        }
        matched: list[Row] = []
        for row in (named(truth, row) or {} for row in wanted):
            found = actual.pop(tuple(row.get(column) for column in key), None)
            if found is None and row in matched:
                row = {**row, "twice": None}
            matched.append(row)
            if found is None:
                yield Difference("row", place, None, row)
                continue
            if missing := row.keys() - found.keys():
                yield Difference("unknown", place, set(found) - set(key), missing)
            for column in found:
                if found[column] != row[column]:
                    yield Difference("value", f"{place}.{column}", found[column], row[column])
        for row in actual.values():
            yield Difference("row", place, row, None)


@every_config
def test_messages_lead_to_the_final_tables(config: Config) -> None:
    assert not unequal(PROTOCOL[config.protocol], differences(config, applied(config)))


@pytest.mark.parametrize("config", [config for config in CONFIGS if config.name in SHUFFLED], ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_partitions_duplicates_replays_and_batches_change_nothing(config: Config, seed: int) -> None:
    once = applied(config)
    # Without a commit_ts for all, a key's changes have to stay in one partition. canal-json's rows have no Kafka key,
    # Avro's get another one with ADD PRIMARY KEY, and of two tables under one name the first row decides the schema.
    moved = config.protocol == "avro" and config.case.name in ("ddl_all", "odd")
    count = 1 if mode(config) == "milliseconds" or moved else 3
    sent = [sent.message for sent in config.messages]
    partitions = split(sent, of(config), count, by_key=mode(config) in ("arrival", "registry"))
    messages = interleaved(replayed(partitions, seed), seed)
    again = apply(config, messages, batch_size=max(len(messages) // (5 + seed), 1))
    assert rows_of(once) == rows_of(again)
    if mode(config) == "watermark":
        assert once.lake.tables == again.lake.tables


def rows_of(applier: Applier) -> dict[tuple[str, str], Any]:
    """The rows by key; where rows decide the schema, columns stand in the order in which they came."""
    return {name: rows for name, (_, rows) in applier.lake.tables.items()}


@pytest.mark.parametrize("config", [config for config in CONFIGS if config.claim_check.is_dir()], ids=str)
def test_every_message_kept_elsewhere_is_taken(config: Config) -> None:
    found = of(config)
    fetched = found.decoder if isinstance(found, Described) else found
    assert isinstance(fetched, Fetched)
    for sent in config.messages:
        fetched.open_message(sent.message.key, sent.message.value)
    assert fetched.taken == {path.name for path in config.claim_check.iterdir()} != set()


@pytest.mark.parametrize(
    "config", [config for config in CONFIGS if config.name in ("avro", "avro_ext_string")], ids=str
)
def test_without_ddl_a_schema_that_is_more_than_new_columns_stops(config: Config) -> None:
    stops = {"ddl_all": "column `n_bin` is gone", "shop": "column `phone` is gone"}
    strict = registry_applier(registered(config), policy="stop")
    messages = [sent.message for sent in config.messages]
    options = ReadOptions(source_timezone=config.zone)
    if config.case.name in ("ddl_all", "shop", "odd"):
        with pytest.raises(UnsupportedDdl, match=re.escape(stops.get(config.case.name, "the key was"))):
            run(messages, of(config), options, applier=strict, keep_rejects=True)
    else:
        assert rows_of(run(messages, of(config), options, applier=strict, keep_rejects=True)) == rows_of(
            applied(config)
        )


def test_every_rule_is_needed() -> None:
    assert (
        unneeded_rules([difference for config in CONFIGS for difference in differences(config, applied(config))]) == []
    )


def test_every_configuration_is_run() -> None:
    files = {path.with_name(path.name.removesuffix(".config.json")) for path in ROOT.glob("*/*/*.config.json")}
    assert files == {config.case.path / config.name for config in CONFIGS}
    assert {config.protocol for config in CONFIGS} == PROTOCOL.keys()
