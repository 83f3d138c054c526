"""What belongs to each named difference: checks of a place where both sides differ."""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tests.integration.judge import ABSENT, Spot

IMAGES = ("before", "after")


def cell(spot: Spot) -> str:
    """``table.column`` of a value in a row."""
    path = spot.path
    if path[:2] == ("value", "payload") and len(path) >= 4 and path[2] in IMAGES:
        return f"{spot.table}.{path[3]}"
    return ""


def field(spot: Spot) -> tuple[str, str]:
    """``table.column`` in a schema block, and what of it."""
    path = spot.path
    if path[:3] == ("value", "schema", "fields") and len(path) >= 6 and path[3] in IMAGES and path[4] == "fields":
        return f"{spot.table}.{path[5]}", ".".join(path[6:])
    if path[:3] == ("key", "schema", "fields") and len(path) >= 5:
        return f"{spot.table}.{path[3]}", ".".join(path[4:])
    return "", ""


def described(spot: Spot) -> tuple[str, str]:
    """``table.column`` in ``tableChanges``, and what of it."""
    path = spot.path
    if path[:3] == ("value", "payload", "tableChanges") and "columns" in path:
        at = path.index("columns")
        return f"{spot.table}.{path[at + 1]}", ".".join(path[at + 2 :])
    return "", ""


def number(value: Any) -> float:
    """A number, or one that equals nothing."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("nan")


def single(number: float) -> float:
    """The nearest number of 32 bits."""
    return float(struct.unpack("f", struct.pack("f", number))[0])


def at(*path: str) -> Callable[[Spot], bool]:
    return lambda spot: spot.path == path


def both(*checks: Callable[[Spot], bool]) -> Callable[[Spot], bool]:
    return lambda spot: all(check(spot) for check in checks)


def either(*checks: Callable[[Spot], bool]) -> Callable[[Spot], bool]:
    return lambda spot: any(check(spot) for check in checks)


def pair(ours: Any, native: Any) -> Callable[[Spot], bool]:
    return lambda spot: (spot.ours, spot.native) == (ours, native)


def of_field(names: set[str], **parts: tuple[Any, Any]) -> Callable[[Spot], bool]:
    """Columns of a schema block, with what both sides have of each part."""

    def fits(spot: Spot) -> bool:
        name, part = field(spot)
        return name in names and part in parts and parts[part] == (spot.ours, spot.native)

    return fits


def of_change(names: set[str], **parts: tuple[Any, Any]) -> Callable[[Spot], bool]:
    """Columns of ``tableChanges`` likewise."""

    def fits(spot: Spot) -> bool:
        name, part = described(spot)
        return name in names and part in parts and parts[part] == (spot.ours, spot.native)

    return fits


# ----- source and envelope

SOURCE = ("value", "payload", "source")
DECLARED = ("value", "schema", "fields", "source")


def source_of_native(spot: Spot) -> bool:
    known = {
        "version": ("2.4.0.Final", "3.5.0.Final"),
        "connector": ("TiCDC", "mariadb"),
        "server_id": (0, 7),
        "thread": (0, None),
        "sequence": (ABSENT, None),
    }
    name = spot.path[-1]
    if spot.path[:3] != SOURCE or len(spot.path) != 4:
        return False
    match name:
        case "gtid":
            return spot.ours is None and re.fullmatch(r"\d+-7-\d+", str(spot.native)) is not None
        case "file":
            return bool(spot.ours == "" and spot.native.startswith("binlog."))
        case "pos" | "row":
            return spot.ours == 0 and isinstance(spot.native, int) and spot.native > 0
    return name in known and known[name] == (spot.ours, spot.native)


def finer_times(spot: Spot) -> bool:
    name = spot.path[-1]
    if spot.ours is not ABSENT or name not in ("ts_us", "ts_ns"):
        return False
    if "schema" in spot.path:
        return bool(spot.native == {"type": "int64", "optional": True, "field": name})
    _, native = spot.pair
    payload = native.payload if native else {}
    of = payload.get("source", {}) if "source" in spot.path else payload
    return bool(spot.native // (1000 if name == "ts_us" else 1_000_000) == of["ts_ms"])


def schema_name(spot: Spot) -> bool:
    """``{cluster}.{schema}.{table}.…`` beside ``{topic.prefix}.…``; TiCDC has only letters, digits and ``_`` in it."""
    if spot.path[-1] != "name" or not isinstance(spot.native, str) or not isinstance(spot.ours, str):
        return False
    return spot.ours == re.sub(r"[^A-Za-z0-9._]", "_", "default." + spot.native.partition(".")[2])


def schema_of_source(spot: Spot) -> bool:
    allowed = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
    known = {
        (*DECLARED, "name"): ("io.debezium.connector.mysql.Source", "io.debezium.connector.mariadb.Source"),
        (*DECLARED, "version"): (ABSENT, 1),
        (*DECLARED, "fields", "snapshot", "parameters", "allowed"): ("true,last,false,incremental", allowed),
        ("value", "schema", "version"): (1, 2),
    }
    return known.get(spot.path) == (spot.ours, spot.native)


def named_after_connector(spot: Spot) -> bool:
    return spot.path[-2:] == ("schema", "name") and (spot.ours, spot.native) in {
        (f"io.debezium.connector.mysql.{kind}", f"io.debezium.connector.mariadb.{kind}")
        for kind in ("SchemaChangeKey", "SchemaChangeValue")
    }


def made_at(spot: Spot) -> bool:
    minutes = 60 * 60_000
    return spot.path == ("value", "payload", "ts_ms") and abs(number(spot.ours) - number(spot.native)) < minutes


def order_of_envelope(spot: Spot) -> bool:
    ours = ["before", "after", "source", "op", "ts_ms", "transaction"]
    native = ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    return spot.path == ("value", "schema", "fields", "order") and (spot.ours, spot.native) == (ours, native)


# ----- messages that one side has


def tombstone(spot: Spot) -> bool:
    deleted, tombstone = spot.pair
    return (
        spot.path == ("message", "tombstone")
        and spot.ours is ABSENT
        and deleted is not None
        and tombstone is not None
        and deleted.payload["op"] == "d"
        and deleted.handle == tombstone.handle
    )


def deletes_first(spot: Spot) -> bool:
    if spot.path != ("message", "order"):
        return False
    return bool(spot.ours == sorted(spot.native, key=lambda identity: identity[1] != "d"))


def split_unique(spot: Spot) -> bool:
    ops = ([op for _, op, _ in side] for side in (spot.ours, spot.native) if isinstance(side, list))
    return spot.path == ("message", "changes") and [*ops] == [["d", "c"], ["u"]]


def net_change(spot: Spot) -> bool:
    if spot.path != ("message", "changes"):
        return False
    ours, native = ([key for _, _, key in side] for side in (spot.ours, spot.native))
    # the rows of both are compared beside this; here: no key twice in ours, and none that native does not have
    return len({*ours}) == len(ours) < len(native) and {*ours} <= {*native}


def key_moved(spot: Spot) -> bool:
    """Native puts the other key of a row whose key changed into a header."""
    ours, native = spot.pair
    if spot.path[0] != "headers" or ours is None or native is None or spot.ours is not ABSENT:
        return False
    return (spot.path[1], native.payload.get("op")) in (("__debezium.newkey", "d"), ("__debezium.oldkey", "c"))


def only_native_ddl(*starts: str) -> Callable[[Spot], bool]:
    return lambda spot: (
        spot.path == ("message", "ddl") and spot.ours is ABSENT and spot.native.upper().startswith(starts)
    )


def snapshot_ddl(spot: Spot) -> bool:
    _, native = spot.pair
    return (
        spot.path == ("message", "ddl")
        and native is not None
        and native.payload["source"]["snapshot"] in ("true", "last")
    )


# ----- values

DECIMALS = {f"{name}.y" for name in ("t", "renamed", "again")} | {
    "numbers.n",
    "numbers.large",
    "numbers.whole",
    "defaults.n",
}
BOOLEANS = {"numbers.yes", "defaults.yes"}
BINARIES = {"texts.b", "texts.vb", "texts.tb", "texts.bl", "texts.mb", "texts.lb", "defaults.vb"}


def _unscaled(text: Any, scale: int) -> float:
    if not isinstance(text, str):
        return float("nan")
    return float(Decimal(int.from_bytes(b64decode(text), signed=True)).scaleb(-scale))


def decimal(spot: Spot) -> bool:
    name, part = field(spot)
    scales = {"large": 10, "whole": 0, "y": 4, "n": 2}
    scale = scales.get((name or cell(spot)).rpartition(".")[2], 0)
    if cell(spot) in DECIMALS:
        return number(spot.ours) == _unscaled(spot.native, scale)
    if name not in DECIMALS:
        return False
    match part:
        case "type":
            return (spot.ours, spot.native) == ("double", "bytes")
        case "name":
            return (spot.ours, spot.native) == (ABSENT, "org.apache.kafka.connect.data.Decimal")
        case "version":
            return (spot.ours, spot.native) == (ABSENT, 1)
        case "parameters":
            return spot.ours is ABSENT and spot.native["scale"] == str(scale)
        case "default":
            return number(spot.ours) == _unscaled(spot.native, scale)
    return False


def boolean(spot: Spot) -> bool:
    if cell(spot) in BOOLEANS:
        return isinstance(spot.ours, int) and spot.native is bool(spot.ours)
    schema = of_field(BOOLEANS, type=("int16", "boolean"), default=(1, True))
    change = of_change(
        BOOLEANS,
        jdbcType=(5, 16),
        typeName=("TINYINT", "BOOLEAN"),
        typeExpression=("TINYINT", "BOOLEAN"),
        length=(1, None),
        defaultValueExpression=("1", "TRUE"),
    )
    return schema(spot) or change(spot)


def shortest_float(spot: Spot) -> bool:
    return cell(spot) in ("numbers.f", "numbers.fs") and single(number(spot.ours)) == single(number(spot.native))


def real(spot: Spot) -> bool:
    if cell(spot) == "numbers.r":
        return single(number(spot.ours)) == number(spot.native)
    change = of_change({"numbers.r"}, jdbcType=(8, 7), typeName=("DOUBLE", "REAL"), typeExpression=("DOUBLE", "REAL"))
    return of_field({"numbers.r"}, type=("double", "float"))(spot) or change(spot)


def null_default(spot: Spot) -> bool:
    """Native's is the default of its own schema block."""
    name = cell(spot)
    _, native = spot.pair
    if not name.startswith("defaults.") or spot.ours is not None or native is None:
        return False
    schema = native.value.get("schema")  # not there where the property is false too
    columns = {one["field"]: one for one in schema["fields"][0]["fields"]} if schema else {}
    return spot.path[3] in columns and bool(columns[spot.path[3]]["default"] == spot.native)


def spatial(spot: Spot) -> bool:
    if cell(spot) == "place.p":
        return isinstance(spot.ours, str) and bool(b64decode(spot.ours)[4:] == b64decode(spot.native["wkb"]))
    name, part = field(spot)
    if name == "place.p":
        return part in ("type", "fields", "name", "version", "doc") and spot.ours in ("string", ABSENT)
    kinds = {"jdbcType": (2004, 1111), "typeName": ("LONGBLOB", "POINT"), "typeExpression": ("LONGBLOB", "POINT")}
    return of_change({"place.p"}, **kinds)(spot)


def virtual(spot: Spot) -> bool:
    if spot.table != "made":
        return False
    if cell(spot) == "made.v":
        return spot.ours is ABSENT and spot.native in (3, 6)
    orders = (["id", "a", "kept", "z", "v"], ["id", "a", "kept", "v", "z"])
    return spot.path[-2:] == ("fields", "order") and (spot.ours, spot.native) == orders


def json_type(spot: Spot) -> bool:
    names = {"texts.j"}
    return either(
        of_field(names, name=(ABSENT, "io.debezium.data.Json"), version=(ABSENT, 1)),
        of_change(
            names,
            jdbcType=(12, 1111),
            typeName=("LONGTEXT", "JSON"),
            typeExpression=("LONGTEXT", "JSON"),
            charsetName=("utf8mb4", None),
        ),
    )(spot)


def uuid_type(spot: Spot) -> bool:
    names = {"texts.u"}
    return either(
        of_field(names, name=(ABSENT, "io.debezium.data.Uuid"), version=(ABSENT, 1)),
        of_change(
            names,
            jdbcType=(1, 1111),
            typeName=("CHAR", "UUID"),
            typeExpression=("CHAR", "UUID"),
            charsetName=("ascii", None),
            length=(36, None),
        ),
    )(spot)


def index_ddl(spot: Spot) -> bool:
    ours, _ = spot.pair
    if ours is None or "ddl" not in (ours.payload or {}) or " INDEX i_w ON " not in ours.payload["ddl"]:
        return False
    if spot.path == ("value", "payload", "tableChanges", "0"):
        return spot.native is ABSENT
    places = {
        ("key", "payload", "databaseName"),
        ("value", "payload", "databaseName"),
        (*SOURCE, "db"),
        (*SOURCE, "table"),
    }
    return spot.path in places and spot.native == "" and spot.ours in ("judge", "t")


def comment(spot: Spot) -> bool:
    name, part = described(spot)
    if (name == "t.c" and part == "comment") or spot.path[-2:] == ("table", "comment"):
        return spot.ours is None and spot.native in ("a comment", "seen")
    return of_field({"t.c"}, doc=(ABSENT, "a comment"))(spot)


def table_of_ddl(spot: Spot) -> bool:
    return spot.path == (*SOURCE, "table") and (spot.ours, spot.native) in {
        ("", None),
        ("two", "two,alike"),
        ("alike", "two,alike"),
    }


def renamed_id(spot: Spot) -> bool:
    return spot.path == ("value", "payload", "tableChanges", "0", "id") and str(spot.ours).endswith(f",{spot.native}")


def tidb_type(spot: Spot) -> bool:
    return spot.path[-1] == "tidb_type" and field(spot) != ("", "") and spot.native is ABSENT


def no_before(spot: Spot) -> bool:
    ours, _ = spot.pair
    of_update = ours is None or ours.payload.get("op") == "u"
    return spot.path == ("value", "payload", "before") and spot.ours is ABSENT and of_update


def committed_later(spot: Spot) -> bool:
    """In whole seconds, as the binlog of MariaDB."""
    late = number(spot.ours) - number(spot.native) if spot.path == (*SOURCE, "ts_ms") else 0
    return bool(0 < late < 60_000 and late % 1000 == 0)
