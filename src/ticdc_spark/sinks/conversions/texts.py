"""Conversions of text, bytes, ENUM and SET. The lake stores names for ENUM and SET; canonical values are numbers."""

from collections.abc import Callable
from functools import partial

from ticdc_spark.errors import MessageError
from ticdc_spark.model import ColumnType
from ticdc_spark.mysql import enum_index, enum_name, set_mask, set_names
from ticdc_spark.sinks.conversions.steps import (
    KEEP,
    Cell,
    Step,
    approximate,
    literal,
    matches,
    refused,
    text_of,
)

_UTF8 = (None, "utf8", "utf8mb3", "utf8mb4", "ascii")
_NO_MEMBER = "the old type has a member '', whose text in the lake is that of no member, too"
_BLANKS = " \t\n\r"


def fit_text(after: ColumnType) -> tuple[Step, ...]:
    """CHAR(n) and VARCHAR(n): longer text may lose only blanks at its end; CHAR has no trailing spaces."""
    if after.name not in ("char", "varchar"):
        return ()
    steps = []
    if after.length is not None and after.length >= 0:
        most = after.length
        rest = f"trim(TRAILING {literal(_BLANKS)} FROM substring({{x}}, {most + 1}))"
        cut = f"CASE WHEN length({{x}}) <= {most} THEN {{x}} WHEN {rest} = '' THEN substring({{x}}, 1, {most}) END"
        steps.append(Step(cut, partial(_cut, after, most)))
    if after.name == "char":
        steps.append(Step("rtrim({x})", lambda cell: text_of(cell).rstrip(" ")))
    return tuple(steps)


def _cut(after: ColumnType, most: int, cell: Cell) -> Cell:
    text = text_of(cell)
    if text[most:].rstrip(_BLANKS):
        raise refused(cell, after)
    return text[:most]


def fit_bytes(after: ColumnType, before: ColumnType | None = None) -> tuple[Step, ...]:
    """Refuse values longer than n bytes, and pad BINARY(n) with zero bytes.

    ``before``: the type of values that already are bytes; only padding changes these.
    """
    size = after.length
    if size is None or (before is not None and before.name == after.name and before.length == size):
        return ()
    fixed = after.name in ("binary", "char")

    def fit(cell: Cell) -> Cell:
        found = cell.encode() if isinstance(cell, str) else cell
        if len(found) > size:
            raise refused(cell, after)
        return found.ljust(size, b"\0") if fixed else found

    if before is not None and not fixed:
        return (Step(KEEP.sql, fit),)
    fitted = f"rpad({{x}}, {size}, X'00')" if fixed else "{x}"
    return (Step(f"CASE WHEN octet_length({{x}}) <= {size} THEN {fitted} END", fit),)


def encode(before: ColumnType) -> Step:
    """Text as the bytes of its character set."""
    step = Step("encode({x}, 'UTF-8')", lambda cell: cell if isinstance(cell, bytes) else cell.encode())
    return step if before.charset in _UTF8 else approximate(step, f"its bytes are those of {before.charset}")


def decode(after: ColumnType | None = None) -> Step:
    """Bytes as text."""
    step = Step("try_validate_utf8(CAST({x} AS string))", _decoded)
    charset = after.charset if after is not None else None
    return step if charset in (*_UTF8, "binary") else approximate(step, f"its bytes are those of {charset}")


def _decoded(cell: Cell) -> Cell:
    if isinstance(cell, str):
        return cell
    try:
        return cell.decode()
    except UnicodeDecodeError as error:
        raise MessageError(f"{cell!r:.80} is not UTF-8") from error


def names_of(before: ColumnType) -> Step:
    """The names of an ENUM or SET, which the lake already has."""
    read = enum_name if before.name == "enum" else set_names
    return Step("{x}", lambda cell: read(before, text_of(cell)))


def _array(members: tuple[str, ...]) -> str:
    return f"array({', '.join(map(literal, members))})" if members else "CAST(array() AS array<string>)"


def number_of(before: ColumnType) -> Step:
    """The text of an ENUM's index or a SET's mask."""
    members = before.elements
    if before.name == "enum":
        place = f"nullif(array_position({_array(members)}, {{x}}), 0)"
        sql = f"CASE WHEN {{x}} = '' THEN '0' ELSE CAST({place} AS string) END"
        known: Callable[[ColumnType, str], str] = enum_name
    else:
        sql = f"CAST({_mask('split({x}, {comma})'.replace('{comma}', literal(',')), members)} AS string)"
        known = set_names

    def convert(cell: Cell) -> Cell:
        known(before, text_of(cell))
        return str(int(cell))

    step = Step(sql, convert)
    if "" in members:
        return approximate(step, _NO_MEMBER)
    return step


def _mask(parts: str, members: tuple[str, ...]) -> str:
    terms = (
        f"CASE WHEN array_contains({parts}, {literal(member)}) THEN CAST('{1 << at}' AS decimal(20,0)) "
        f"ELSE CAST('0' AS decimal(20,0)) END"
        for at, member in enumerate(members)
    )
    return f"CAST({' + '.join(terms)} AS decimal(20,0))" if members else "CAST('0' AS decimal(20,0))"


def number_to_enum(after: ColumnType) -> Step:
    """From an integer's text: the member at that index."""
    count = len(after.elements)

    def convert(cell: Cell) -> Cell:
        if not 1 <= int(cell) <= count:
            raise refused(cell, after)
        return str(int(cell))

    number = "try_cast({x} AS decimal(20,0))"
    member = f"try_element_at({_array(after.elements)}, try_cast({number} AS int))"
    return Step(f"CASE WHEN {number} BETWEEN 1 AND {count} THEN {member} END", convert)


def number_to_set(after: ColumnType) -> Step:
    """From an integer's text: the members whose bits are set."""
    most = (1 << len(after.elements)) - 1
    number = "try_cast({x} AS decimal(20,0))"
    terms = ", ".join(
        f"CASE WHEN floor({number} / CAST('{1 << at}' AS decimal(20,0))) % 2 = 1 THEN {literal(member)} END"
        for at, member in enumerate(after.elements)
    )

    def convert(cell: Cell) -> Cell:
        if not 0 <= int(cell) <= most:
            raise refused(cell, after)
        return str(int(cell))

    names = f"concat_ws(',', {terms})" if terms else "''"
    return Step(f"CASE WHEN {number} BETWEEN 0 AND CAST('{most}' AS decimal(20,0)) THEN {names} END", convert)


def _folds(after: ColumnType) -> bool:
    return bool(after.collate and after.collate.endswith("_ci"))


def _member(after: ColumnType, name: str) -> str | None:
    """The member with a name: the same text or, if the collation ignores case, one that differs by case."""
    trimmed = name.rstrip(" ")
    if trimmed in after.elements:
        return trimmed
    if _folds(after):
        return next((member for member in after.elements if member.lower() == trimmed.lower()), None)
    return None


def _member_sql(after: ColumnType, name: str) -> str:
    def at(members: tuple[str, ...], wanted: str) -> str:
        place = f"nullif(array_position({_array(members)}, {wanted}), 0)"
        return f"try_element_at({_array(after.elements)}, try_cast({place} AS int))"

    found = at(after.elements, f"rtrim({name})")
    if not _folds(after):
        return found
    return f"coalesce({found}, {at(tuple(member.lower() for member in after.elements), f'lower(rtrim({name}))')})"


def text_to_enum(after: ColumnType) -> Step:
    """From text: the member with that name, else the member with that number."""

    def convert(cell: Cell) -> Cell:
        text = text_of(cell)
        member = _member(after, text)
        if member is not None:
            return enum_index(after, member)
        if text.isascii() and text.isdigit() and text[0] != "0" and 1 <= int(text) <= len(after.elements):
            return text
        raise refused(cell, after)

    number = f"CASE WHEN {matches('[1-9][0-9]{0,5}')} AND try_cast({{x}} AS int) <= {len(after.elements)} "
    number += f"THEN try_element_at({_array(after.elements)}, try_cast({{x}} AS int)) END"
    return Step(f"coalesce({_member_sql(after, '{x}')}, {number})", convert)


def text_to_set(after: ColumnType) -> Step:
    """From comma-separated names; the result has the order of the type."""

    def convert(cell: Cell) -> Cell:
        text = text_of(cell)
        members = [_member(after, name) for name in text.split(",")] if text else []
        if None in members:
            raise refused(cell, after)
        return set_mask(after, ",".join(member for member in members if member is not None))

    found = f"transform(split({{x}}, ','), n -> {_member_sql(after, 'n')})"
    ordered = f"array_join(filter({_array(after.elements)}, m -> array_contains({found}, m)), ',')"
    known = f"forall({found}, f -> f IS NOT NULL)"
    return Step(f"CASE WHEN {{x}} = '' THEN '' WHEN {known} THEN {ordered} END", convert)


def keeps_names(before: ColumnType, after: ColumnType) -> bool:
    """Whether every ENUM or SET value of ``before`` has the same text in ``after``."""
    places = [after.elements.index(member) for member in before.elements if member in after.elements]
    ordered = before.name == after.name == "enum" or places == sorted(places)
    return len(places) == len(before.elements) and ordered and (before.name == "enum" or after.name == "set")


def names_as_names(before: ColumnType, after: ColumnType) -> tuple[Step, ...]:
    """ENUM or SET to ENUM or SET by names; ENUM's invalid value 0 stays."""
    write = (text_to_enum if after.name == "enum" else text_to_set)(after)
    if after.name == "enum" and before.name == "enum":
        sql = KEEP.sql if keeps_names(before, after) else f"CASE WHEN {{x}} = '' THEN '' ELSE {write.sql} END"

        def convert(cell: Cell) -> Cell:
            return "0" if cell == "0" else write.python(enum_name(before, text_of(cell)))

        step = Step(sql, convert)
        return (approximate(step, _NO_MEMBER) if "" in before.elements and sql != KEEP.sql else step,)
    if keeps_names(before, after):
        write = Step(KEEP.sql, write.python)
    return (names_of(before), write)
