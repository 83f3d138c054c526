"""The steps from one column type to another."""

from typing import Literal, TypeAlias

from ticdc_spark.model import ColumnType
from ticdc_spark.mysql import INTEGER_BITS, Ambiguous, fsp, is_bytes, is_text
from ticdc_spark.sinks.conversions import numbers, texts, times
from ticdc_spark.sinks.conversions.steps import KEEP, Step, approximate, unknown
from ticdc_spark.spark.types import LakeType

Family: TypeAlias = Literal[
    "integer",
    "year",
    "bit",
    "float",
    "decimal",
    "text",
    "bytes",
    "date",
    "datetime",
    "timestamp",
    "time",
    "enum",
    "set",
    "other",
]
Side: TypeAlias = tuple[ColumnType, LakeType]
"""A column type, and its type in the lake."""
_WHOLE = ("integer", "year", "bit")
_NAMED = ("enum", "set")
_NUMBERS = (*_WHOLE, "float", "decimal")
_CALENDAR = ("date", "datetime", "timestamp")
NO_ZONE = "TIMESTAMP and local time convert in the session's time zone, and [job] ddl-timezone is not set"
_LAST_DIGIT = "the last digit of a float's text may differ where it lies halfway between two"
_FAMILIES: dict[str, Family] = {
    **dict.fromkeys(INTEGER_BITS, "integer"),
    "year": "year",
    "bit": "bit",
    "float": "float",
    "double": "float",
    "decimal": "decimal",
    "date": "date",
    "newdate": "date",
    "datetime": "datetime",
    "timestamp": "timestamp",
    "time": "time",
    "enum": "enum",
    "set": "set",
}


def family(kind: ColumnType) -> Family:
    """The family of a type. Its members convert in the same way."""
    if is_bytes(kind):
        return "bytes"
    return "text" if is_text(kind) else _FAMILIES.get(kind.name, "other")


def route(old: Side, new: Side, zone: str | None, ambiguous: Ambiguous) -> tuple[Step, ...]:
    """The steps from ``old`` to ``new``, in order; none if nothing changes.

    ``zone``: the session time zone of the DDL.
    """
    source, target = family(old[0]), family(new[0])
    if source == "other" or target == "other":
        return _others(old, new)
    if source == "timestamp" and target != "timestamp":
        local = _local(zone)
        moved = (old[0], LakeType("timestamp_ntz", "local"))
        kind = ColumnType(name="datetime", decimal=old[0].decimal)
        return (local, *route((kind, moved[1]), new, zone, ambiguous))
    match target:
        case "integer" | "bit":
            return _to_whole(old, new)
        case "year":
            return _to_year(old, new)
        case "float":
            return _to_float(old, new)
        case "decimal":
            return _to_decimal(old, new)
        case "text":
            return _to_text(old, new)
        case "bytes":
            return _to_bytes(old, new)
        case "date" | "datetime" | "timestamp":
            return _to_calendar(old, new, zone, ambiguous)
        case "time":
            return _to_time(old, new)
        case _:
            return _to_names(old, new)


def _refused(old: Side, new: Side) -> tuple[Step, ...]:
    return (unknown(new[1].spark, f"{old[0].name.upper()} to {new[0].name.upper()} is not converted"),)


def _others(old: Side, new: Side) -> tuple[Step, ...]:
    if old[0].name == new[0].name:
        return ()
    if old[0].name == "json" and family(new[0]) == "text":
        return texts.fit_text(new[0])
    return _refused(old, new)


def _local(zone: str | None) -> Step:
    return approximate(times.to_local("UTC"), NO_ZONE) if zone is None else times.to_local(zone)


def _number_text(old: Side) -> tuple[Step, ...] | None:
    """The steps to the text of a number; ``None`` where there is none."""
    kind, lake = old
    match family(kind):
        case "integer" | "year" | "bit":
            return (numbers.integer_text(lake),)
        case "decimal":
            return (numbers.decimal_text(lake),)
        case "float" if kind.name == "float":
            return numbers.widen_float(), numbers.float_text(64)
        case "float":
            return (numbers.float_text(64),)
        case "text":
            return (numbers.user_number(),)
        case "bytes":
            return texts.decode(), numbers.user_number()
        case "date":
            return (times.date_number(),)
        case "datetime":
            return (times.datetime_number(fsp(kind)),)
        case "time":
            return (times.time_number(),)
        case "enum" | "set":
            return (texts.number_of(kind),)
    return None


def _to_whole(old: Side, new: Side) -> tuple[Step, ...]:
    (kind, lake), source = old, family(old[0])
    if source in _WHOLE and lake.spark == new[1].spark and "bit" not in (source, family(new[0])):
        return (Step("{x}", numbers.to_integer(*new).python),)
    if source == "float":
        return (*((numbers.widen_float(),) if kind.name == "float" else ()), numbers.float_to_integer(*new))
    if family(new[0]) == "bit" and source not in (*_NUMBERS, *_NAMED):
        return _refused(old, new)
    if source in ("datetime", "time") and fsp(kind):
        if new[0].unsigned:
            return tuple(
                approximate(step, f"{kind.name.upper()} with a fraction to UNSIGNED") for step in _whole(old, new)
            )
        shorter = times.round_datetime(0, instant=False) if source == "datetime" else times.round_time(0)
        return (shorter, *_whole((ColumnType(name=kind.name), lake), new))
    return _whole(old, new)


def _whole(old: Side, new: Side) -> tuple[Step, ...]:
    text = _number_text(old)
    return _refused(old, new) if text is None else (*text, numbers.to_integer(*new, bits=family(old[0]) in _WHOLE))


def _to_year(old: Side, new: Side) -> tuple[Step, ...]:
    source = family(old[0])
    if source == "year":
        return ()
    if source in ("date", "datetime"):
        return times.year_of(), numbers.to_year()
    if source == "text":
        return numbers.text_to_year(), numbers.to_year()
    big = (ColumnType(name="bigint"), LakeType("bigint", "int64"))
    if source in ("float", "decimal"):
        return (*_to_whole(old, big), numbers.integer_text(big[1]), numbers.to_year())
    text = _number_text(old) if source in (*_WHOLE, *_NAMED) else None
    return _refused(old, new) if text is None else (*text, numbers.to_year())


def _to_float(old: Side, new: Side) -> tuple[Step, ...]:
    (kind, _), source = old, family(old[0])
    limited = new[0].decimal is not None and new[0].decimal >= 0
    if source == "float" and not limited and not (new[0].unsigned and not kind.unsigned):
        if kind.name == new[0].name:
            return ()
        if kind.name == "float":
            return (numbers.widen_float(),)
    if source == "float" and kind == new[0]:
        return ()
    text = _number_text(old)
    return _refused(old, new) if text is None else (*text, numbers.to_float(new[0]))


def _to_decimal(old: Side, new: Side) -> tuple[Step, ...]:
    (kind, lake), source = old, family(old[0])
    if source == "decimal" and lake.spark == new[1].spark and (kind.decimal or 0) == (new[0].decimal or 0):
        return (Step("{x}", numbers.to_decimal(*new, kind.decimal or 0).python),)
    digits = (kind.decimal or 0) if source == "decimal" else 0 if source in _WHOLE else None
    text = _number_text(old)
    return _refused(old, new) if text is None else (*text, numbers.to_decimal(*new, digits))


def _plain_text(old: Side) -> tuple[Step, ...] | None:
    (kind, lake), source = old, family(old[0])
    match source:
        case "integer" | "year":
            return (numbers.integer_text(lake),)
        case "bit":
            return (approximate(numbers.integer_text(lake), "the text of a BIT differs between versions of TiDB"),)
        case "decimal":
            return (numbers.decimal_text(lake),)
        case "float":
            limited = kind.decimal is not None and kind.decimal >= 0
            why = "FLOAT(M,D) shows D digits" if limited else _LAST_DIGIT
            return (approximate(numbers.float_text(32 if kind.name == "float" else 64), why),)
        case "date":
            return (times.date_text(),)
        case "datetime":
            return (times.datetime_text(fsp(kind)),)
        case "time":
            return (KEEP,)
        case "enum" | "set":
            return (texts.names_of(kind),)
    return None


def _longest(kind: ColumnType) -> int | None:
    """The length of a type's longest text, in characters, for types that the lake already stores as text."""
    match kind.name:
        case "time":
            return len("-838:59:59.") + fsp(kind)
        case "enum":
            return max(map(len, kind.elements), default=0)
        case "set":
            return len(",".join(kind.elements))
    return None


def _to_text(old: Side, new: Side) -> tuple[Step, ...]:
    (kind, _), source = old, family(old[0])
    if source == "bytes":
        return (texts.decode(new[0]), *texts.fit_text(new[0]))
    if source != "text":
        text = _plain_text(old)
        if text is None:
            return _refused(old, new)
        always_fits = (longest := _longest(kind)) is not None and longest <= (new[0].length or 0)
        return text if always_fits else (*text, *texts.fit_text(new[0]))
    fits = texts.fit_text(new[0])
    shorter = kind.length is None or (new[0].length is not None and new[0].length < kind.length)
    if kind.name == new[0].name == "char" or (kind.name == "char" and new[0].name == "varchar"):
        return () if not shorter or kind.length is None else fits[:1]
    return fits if shorter and new[0].length is not None else fits[1:]


def _to_bytes(old: Side, new: Side) -> tuple[Step, ...]:
    (kind, _), source = old, family(old[0])
    if source == "bytes":
        return texts.fit_bytes(new[0], kind)
    first: tuple[Step, ...] | None = () if source == "text" else _plain_text(old)
    if first is None:
        return _refused(old, new)
    return (*first, texts.encode(kind if source == "text" else ColumnType(name="text")), *texts.fit_bytes(new[0]))


def _to_calendar(old: Side, new: Side, zone: str | None, ambiguous: Ambiguous) -> tuple[Step, ...]:
    (kind, _), source, target = old, family(old[0]), new[0].name
    digits = fsp(new[0])
    if source == target == "date":
        return ()
    if source in ("datetime", "timestamp") and source == target:
        return _digits(fsp(kind), digits, instant=source == "timestamp")
    match source:
        case "date":
            local: tuple[Step, ...] = (times.date_to_datetime(digits),)
        case "datetime" if target == "date":
            return (times.datetime_to_date(),)
        case "datetime":
            local = _digits(fsp(kind), digits, instant=False)
        case "integer" if not (kind.unsigned and target == "timestamp"):
            local = (*(_number_text(old) or ()), times.number_to_datetime(), *_digits(6, digits, instant=False))
        case "text" | "bytes":
            read = (*(() if source == "text" else (texts.decode(),)), times.text_to_datetime())
            if target == "date":
                return (*read, times.parsed_to_date())
            local = (*read, *_digits(6, digits, instant=False))
        case "time":
            return (unknown(new[1].spark, "a TIME becomes a time of the day on which the DDL ran"),)
        case _:
            return _refused(old, new)
    if target == "datetime":
        return local
    if target == "date":
        return (*local, times.datetime_to_date())
    instant = times.to_instant(zone or "UTC", digits, ambiguous)
    return (*local, approximate(instant, NO_ZONE) if zone is None else instant)


def _digits(have: int, want: int, *, instant: bool) -> tuple[Step, ...]:
    if want == have:
        return ()
    return (times.widen(want),) if want > have else (times.round_datetime(want, instant=instant),)


def _to_time(old: Side, new: Side) -> tuple[Step, ...]:
    (kind, _), source, digits = old, family(old[0]), fsp(new[0])
    match source:
        case "time":
            return () if fsp(kind) == digits else (times.round_time(digits),)
        case "date":
            return (times.date_to_time(digits),)
        case "datetime":
            day = times.datetime_to_time(fsp(kind))
            return (day,) if fsp(kind) == digits else (day, times.round_time(digits))
        case "integer":
            return (*(_number_text(old) or ()), times.number_to_time(), times.round_time(digits))
        case "text":
            return times.text_to_time(), times.round_time(digits)
        case "bytes":
            return texts.decode(), times.text_to_time(), times.round_time(digits)
    return _refused(old, new)


def _to_names(old: Side, new: Side) -> tuple[Step, ...]:
    source, target = family(old[0]), new[0].name
    if source in _NAMED:
        if old[0].elements == new[0].elements and old[0].name == target:
            return ()
        return texts.names_as_names(old[0], new[0])
    if source == "integer":
        whole = (*(_number_text(old) or ()),)
        return (*whole, (texts.number_to_enum if target == "enum" else texts.number_to_set)(new[0]))
    write = (texts.text_to_enum if target == "enum" else texts.text_to_set)(new[0])
    if source == "text":
        return (write,)
    return (texts.decode(), write) if source == "bytes" else _refused(old, new)
