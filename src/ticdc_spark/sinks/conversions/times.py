"""Conversions of DATE, DATETIME, TIMESTAMP and TIME. Spark's session time zone is UTC.

Fractions round half up, to the later time, also for a negative TIME (as in TiDB; MySQL rounds away from zero there).
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, partial
from itertools import pairwise

from ticdc_spark.errors import MessageError
from ticdc_spark.mysql import Ambiguous, canonical_datetime, local_timestamp, time_zone, utc_timestamp
from ticdc_spark.sinks.conversions.steps import Cell, Step, cast, literal, matches, text_of

_EPOCH = datetime.fromisoformat("1970-01-01")
_MICRO = timedelta(microseconds=1)
_END = 253402300800 * 10**6
"""Microseconds to the year 10000."""
_TIMESTAMPS = (10**6, (2**31 - 1) * 10**6 + 999_999)
"""Microseconds of the first and the last TIMESTAMP."""
_LONGEST = (838 * 3600 + 59 * 60 + 59) * 10**6
_MICROS = "unix_micros(CAST({x} AS timestamp))"
_DATETIME = "([0-9]{4})-?([0-9]{1,2})-?([0-9]{1,2})(?:[ T]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.]([0-9]{0,6}))?)?"
_DASHED = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[ T][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:[.][0-9]{0,6})?)?"
_TIME = "(-?)([0-9]{1,3}):([0-9]{1,2}):([0-9]{1,2})(?:[.]([0-9]{0,6}))?"


def _instant(cell: Cell) -> datetime:
    text = text_of(cell)
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise MessageError(f"{text!r:.80} is no day of the calendar") from error


def _micros(cell: Cell) -> int:
    return (_instant(cell) - _EPOCH) // _MICRO


def _written(micros: int, digits: int) -> str:
    if not -62135596800 * 10**6 <= micros < _END:
        raise MessageError("the time is beyond the year 9999")
    return canonical_datetime((_EPOCH + timedelta(microseconds=micros)).isoformat(" "), digits)


def _is_zero(cell: Cell) -> bool:
    return text_of(cell).startswith("0000-00-00")


def round_datetime(digits: int, *, instant: bool) -> Step:
    """A DATETIME or TIMESTAMP (``instant``) with fewer digits."""
    unit = 10 ** (6 - digits)
    last = _TIMESTAMPS[1] if instant else _END - 1

    def convert(cell: Cell) -> Cell:
        if _is_zero(cell):
            return canonical_datetime(text_of(cell)[:19], digits)
        micros = (_micros(cell) + unit // 2) // unit * unit
        if micros > last:
            raise MessageError(f"{cell!r} is rounded beyond the last time of its type")
        return _written(micros, digits)

    raised = f"{_MICROS} + {unit // 2}"
    rounded = f"(({raised}) - pmod({raised}, CAST({unit} AS bigint)))"
    back = "timestamp_micros(m)" if instant else "CAST(timestamp_micros(m) AS timestamp_ntz)"
    body = f"CASE WHEN m <= CAST('{last}' AS bigint) THEN {back} END"
    return Step(f"element_at(transform(array({rounded}), m -> {body}), 1)", convert)


def widen(digits: int) -> Step:
    """A time with more digits: unchanged in the lake."""
    return Step("{x}", lambda cell: canonical_datetime(text_of(cell), digits))


def datetime_text(digits: int) -> Step:
    """The text of a DATETIME, with all its digits."""
    fraction = f".{'S' * digits}" if digits else ""
    return Step(f"date_format({{x}}, 'yyyy-MM-dd HH:mm:ss{fraction}')", text_of)


def datetime_number(digits: int) -> Step:
    """A DATETIME as a number's text: YYYYMMDDhhmmss.ffffff."""
    fraction = f".{'S' * digits}" if digits else ""
    return Step(
        f"date_format({{x}}, 'yyyyMMddHHmmss{fraction}')",
        lambda cell: re.sub("[^0-9.]", "", text_of(cell)),
    )


def date_text() -> Step:
    """The text of a DATE."""
    return Step("date_format({x}, 'yyyy-MM-dd')", text_of)


def date_number() -> Step:
    """A DATE as a number's text: YYYYMMDD."""
    return Step("date_format({x}, 'yyyyMMdd')", lambda cell: text_of(cell).replace("-", ""))


def time_number() -> Step:
    """A TIME as a number's text: hhmmss.ffffff."""
    return Step("replace({x}, ':', '')", lambda cell: text_of(cell).replace(":", ""))


def date_to_datetime(digits: int) -> Step:
    """Midnight of a DATE."""
    return cast("timestamp_ntz", lambda cell: canonical_datetime(f"{text_of(cell)} 00:00:00", digits))


def datetime_to_date() -> Step:
    """The day of a DATETIME. TiDB does not round up; MySQL does, from half a second before midnight on."""
    return cast("date", lambda cell: text_of(cell)[:10])


def parsed_to_date() -> Step:
    """The day of a time that was text. Servers differ on whether to round up the last half second of a day."""

    def convert(cell: Cell) -> Cell:
        if text_of(cell)[11:] >= "23:59:59.5":
            raise MessageError(f"{cell!r} is a time whose day is not beyond doubt")
        return text_of(cell)[:10]

    time = "date_format({x}, 'HH:mm:ss.SSSSSS')"
    return Step(f"CASE WHEN {time} < '23:59:59.500000' THEN try_cast({{x}} AS date) END", convert)


def datetime_to_time(digits: int) -> Step:
    """The time of day as TIME text with ``digits``."""
    fraction = f".{'S' * digits}" if digits else ""
    return Step(f"date_format({{x}}, 'HH:mm:ss{fraction}')", lambda cell: text_of(cell)[11:])


def date_to_time(digits: int) -> Step:
    """Midnight, for every date."""
    zero = canonical_datetime("00:00:00", digits)
    return Step(f"CASE WHEN {{x}} IS NOT NULL THEN '{zero}' END", lambda _: zero)


def year_of() -> Step:
    """The text of a DATE's or DATETIME's year."""
    return Step("date_format({x}, 'yyyy')", lambda cell: text_of(cell)[:4])


def round_time(digits: int) -> Step:
    """A TIME's text with ``digits``, which may be fewer or more than it has; 838:59:59 is the longest."""
    unit = 10 ** (6 - digits)
    parts = "split(replace({x}, '-', ''), ':')"
    size = (
        f"(CAST({parts}[0] AS bigint) * 3600000000 + CAST({parts}[1] AS bigint) * 60000000 "
        f"+ CAST(CAST({parts}[2] AS decimal(8,6)) * 1000000 AS bigint))"
    )
    raised = f"CASE WHEN {{x}} LIKE '-%' THEN -{size} ELSE {size} END + {unit // 2}"
    rounded = (
        f"element_at(transform(array({raised}), r -> greatest(least(r - pmod(r, CAST({unit} AS bigint)), "
        f"CAST({_LONGEST} AS bigint)), CAST(-{_LONGEST} AS bigint))), 1)"
    )
    fraction = f", pmod(abs(m), 1000000L) div {unit}" if digits else ""
    form = "%s%02d:%02d:%02d" + (f".%0{digits}d" if digits else "")
    body = (
        f"format_string('{form}', CASE WHEN m < 0 THEN '-' ELSE '' END, abs(m) div 3600000000L, "
        f"pmod(abs(m) div 60000000L, 60L), pmod(abs(m) div 1000000L, 60L){fraction})"
    )
    return Step(
        f"CASE WHEN {{x}} IS NOT NULL THEN element_at(transform(array({rounded}), m -> {body}), 1) END",
        partial(_rounded_time, digits),
    )


def _rounded_time(digits: int, cell: Cell) -> Cell:
    text, unit = text_of(cell), 10 ** (6 - digits)
    hours, minutes, seconds = text.lstrip("-").split(":")
    whole, _, fraction = seconds.partition(".")
    micros = ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 10**6 + int(fraction.ljust(6, "0"))
    micros = ((-micros if text.startswith("-") else micros) + unit // 2) // unit * unit
    micros = max(min(micros, _LONGEST), -_LONGEST)
    whole_seconds, rest = divmod(abs(micros), 10**6)
    sign = "-" if micros < 0 else ""
    shown = f"{sign}{whole_seconds // 3600:02}:{whole_seconds // 60 % 60:02}:{whole_seconds % 60:02}"
    return f"{shown}.{rest // unit:0{digits}}" if digits else shown


def text_to_datetime() -> Step:
    """From text, to 6 digits. Only unambiguous forms are accepted."""

    def convert(cell: Cell) -> Cell:
        text = text_of(cell).strip(" ")
        if re.fullmatch("[0-9]{8}", text):
            text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
        if re.fullmatch("[0-9]{14}", text):
            text = f"{text[:4]}-{text[4:6]}-{text[6:8]} {text[8:10]}:{text[10:12]}:{text[12:]}"
        found = re.fullmatch(_DATETIME, text) if re.fullmatch(_DASHED, text) else None
        if found is None:
            raise MessageError(f"{cell!r:.80} is no time that can be read beyond doubt")
        year, month, day, hour, minute, second, fraction = (part or "0" for part in found.groups())
        shown = f"{year}-{month:0>2}-{day:0>2} {hour:0>2}:{minute:0>2}:{second:0>2}.{fraction:0<6}"
        try:
            moment = datetime.fromisoformat(shown)
        except ValueError as error:
            raise MessageError(f"{cell!r:.80} is no time") from error
        return moment.isoformat(" ", "microseconds")

    eight = "regexp_replace(trim({x}), '^([0-9]{4})([0-9]{2})([0-9]{2})(?![^0])(?!0)', '$1-$2-$3')"
    long = "^([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})(?![^0])(?!0)"
    dashed = f"regexp_replace({eight}, '{long}', '$1-$2-$3 $4:$5:$6')"
    body = f"CASE WHEN {matches(_DASHED).replace('{x}', 't')} THEN try_cast(t AS timestamp_ntz) END"
    return Step(f"element_at(transform(array({dashed}), t -> {body}), 1)", convert)


def text_to_time() -> Step:
    """From text hh:mm:ss.ffffff, to a TIME's text with 6 digits."""

    def convert(cell: Cell) -> Cell:
        found = re.fullmatch(_TIME, text_of(cell).strip(" "))
        if found is None:
            raise MessageError(f"{cell!r:.80} is no TIME that can be read beyond doubt")
        sign, hours, minutes, seconds, fraction = found.groups()
        shown = f"{sign}{int(hours):02}:{int(minutes):02}:{int(seconds):02}.{(fraction or '').ljust(6, '0')}"
        if int(minutes) > 59 or int(seconds) > 59 or (shown.lstrip("-") > "838:59:59.000000" and int(hours) > 837):
            raise MessageError(f"{cell!r:.80} is no TIME")
        return "00:00:00.000000" if shown == "-00:00:00.000000" else shown

    plain = _TIME.replace("(?:[.]([0-9]{0,6}))?", "(?:[.][0-9]{0,6})?")
    parts = "split(replace(t, '-', ''), ':')"
    micros = (
        f"CASE WHEN {matches(plain).replace('{x}', 't')} AND CAST({parts}[1] AS int) < 60 "
        f"AND CAST(split({parts}[2], '[.]')[0] AS int) < 60 THEN "
        f"(CASE WHEN t LIKE '-%' THEN -1 ELSE 1 END) * (CAST({parts}[0] AS bigint) * 3600000000L "
        f"+ CAST({parts}[1] AS bigint) * 60000000L + CAST(CAST({parts}[2] AS decimal(8,6)) * 1000000 AS bigint)) END"
    )
    return Step(f"element_at(transform(array(trim({{x}})), t -> {_micros_text(micros)}), 1)", convert)


def number_to_time() -> Step:
    """From an integer's text hhmmss."""

    def convert(cell: Cell) -> Cell:
        number = abs(int(cell))
        hours, minutes, seconds = number // 10000, number // 100 % 100, number % 100
        if number > 8385959 or minutes > 59 or seconds > 59:
            raise MessageError(f"{cell!r} is no TIME")
        return f"{'-' if int(cell) < 0 else ''}{hours:02}:{minutes:02}:{seconds:02}.000000"

    micros = (
        "CASE WHEN NOT n BETWEEN -8385959 AND 8385959 THEN NULL "
        "WHEN pmod(abs(n) div 100, 100L) < 60 AND pmod(abs(n), 100L) < 60 THEN (CASE WHEN n < 0 THEN -1 ELSE 1 END) "
        "* (abs(n) div 10000 * 3600 + pmod(abs(n) div 100, 100L) * 60 + pmod(abs(n), 100L)) * 1000000 END"
    )
    return Step(f"element_at(transform(array(try_cast({{x}} AS bigint)), n -> {_micros_text(micros)}), 1)", convert)


def _micros_text(micros: str) -> str:
    form = "%s%02d:%02d:%02d.%06d"
    shown = (
        f"CASE WHEN abs(m) <= CAST({_LONGEST} AS bigint) THEN format_string('{form}', "
        "CASE WHEN m < 0 THEN '-' ELSE '' END, abs(m) div 3600000000L, pmod(abs(m) div 60000000L, 60L), "
        "pmod(abs(m) div 1000000L, 60L), pmod(abs(m), 1000000L)) END"
    )
    return f"element_at(transform(array(CAST({micros} AS bigint)), m -> {shown}), 1)"


_FULL = 10**6
_NUMBERS = (
    (101, 691231, 20000000, _FULL),
    (700101, 991231, 19000000, _FULL),
    (10000101, 99991231, 0, _FULL),
    (101000000, 691231235959, 20000000000000, 1),
    (700101000000, 991231235959, 19000000000000, 1),
    (10000101000000, 99991231235959, 0, 1),
)
"""Ranges of integers that are times, the number that completes their year, and the factor that appends midnight."""


def number_to_datetime() -> Step:
    """From an integer's text [YY]YYMMDD[hhmmss], to 6 digits."""

    def convert(cell: Cell) -> Cell:
        number = int(cell)
        whole = next(((number + add) * by for low, high, add, by in _NUMBERS if low <= number <= high), 0)
        try:
            return datetime.strptime(f"{whole:014}", "%Y%m%d%H%M%S").isoformat(" ", "microseconds")
        except ValueError as error:
            raise MessageError(f"{cell!r} is no time") from error

    cases = " ".join(f"WHEN n BETWEEN {low} AND {high} THEN (n + {add}) * {by}" for low, high, add, by in _NUMBERS)
    digits = "regexp_replace(lpad(CAST(w AS string), 14, '0'), '^(....)(..)(..)(..)(..)(..)', '$1-$2-$3 $4:$5:$6')"
    body = f"element_at(transform(array(CASE {cases} END), w -> try_cast({digits} AS timestamp_ntz)), 1)"
    return Step(f"element_at(transform(array(try_cast({{x}} AS bigint)), n -> {body}), 1)", convert)


def to_local(zone: str) -> Step:
    """A TIMESTAMP as the DATETIME that ``zone`` shows."""
    return Step(
        f"CAST(from_utc_timestamp({{x}}, {literal(zone)}) AS timestamp_ntz)",
        lambda cell: local_timestamp(text_of(cell), zone),
    )


def to_instant(zone: str, digits: int, ambiguous: Ambiguous) -> Step:
    """A DATETIME of ``zone`` as a TIMESTAMP. A time that ``zone`` skips is refused; for a repeated one, ``ambiguous``
    decides."""
    name = literal(zone)

    def convert(cell: Cell) -> Cell:
        if _is_zero(cell):
            return text_of(cell)
        found = utc_timestamp(text_of(cell), zone, digits, ambiguous)
        if local_timestamp(found, zone) != text_of(cell):
            raise MessageError(f"{cell!r} never happens in {zone}")
        if not _TIMESTAMPS[0] <= _micros(found) <= _TIMESTAMPS[1]:
            raise MessageError(f"{cell!r} is beyond the range of TIMESTAMP")
        return found

    shown = "from_utc_timestamp({t}, {zone}) = CAST({x} AS timestamp)".replace("{zone}", name)
    first = f"to_utc_timestamp(CAST({{x}} AS timestamp), {name})"
    others = [
        f"timestamp_micros(unix_micros({first}) {'+' if sign > 0 else '-'} {shift * 10**6}L)"
        for shift in _repeats(zone)
        for sign in (1, -1)
    ]
    instants = [first, *others]
    every = f"filter(array({', '.join(instants)}), i -> {shown.replace('{t}', 'i')})"
    chosen = f"array_max({every})" if ambiguous == "later" else f"array_min({every})"
    if ambiguous == "reject":
        chosen = f"CASE WHEN array_min({every}) = array_max({every}) THEN {chosen} END"
    low, high = (f"timestamp_micros(CAST({bound} AS bigint))" for bound in _TIMESTAMPS)
    body = f"CASE WHEN i BETWEEN {low} AND {high} THEN i END"
    return Step(f"element_at(transform(array({chosen}), i -> {body}), 1)", convert)


@lru_cache(maxsize=64)
def _repeats(zone: str) -> tuple[int, ...]:
    """By how many seconds a zone's clocks went back, for each change since TIMESTAMPs exist (1970 to 2038)."""
    there = time_zone(zone)
    first = datetime(1970, 1, 1, tzinfo=UTC)
    days = (date(2038, 2, 1) - first.date()).days
    offsets = [(first + timedelta(days=day)).astimezone(there).utcoffset() or timedelta() for day in range(days)]
    found = {int((a - b).total_seconds()) for a, b in pairwise(offsets) if a > b}
    return tuple(sorted(found))
