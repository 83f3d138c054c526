"""Reads a TOML file into frozen structs, and reports all mistakes at once.

The structs are the schema: a section is a struct, a key is a field in kebab-case, and a field's type defines how its
value is read. ``config`` has the structs of a job; nothing here depends on jobs.
"""

import difflib
import re
import tomllib
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from ticdc_spark.config.secrets import ReferenceFault, is_secret_key, redact, remember, resolve
from ticdc_spark.errors import UsageError

Raw: TypeAlias = Mapping[str, object]


class NotAllowed(ValueError):
    """A value that is not allowed. The text, if any, says what is, in place of ``Reads.allowed``."""


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Base of everything that is read from a job file. Its ``repr`` shows no secret."""

    def __repr__(self) -> str:
        return redact(msgspec.Struct.__repr__(self))

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, redact(repr(getattr(self, name)))) for name in self.__struct_fields__]


class Reads(msgspec.Struct, frozen=True):
    """Annotation of a field: how its value is read, and a text that says what is allowed."""

    read: Callable[[Any], object]
    """Raises ValueError for what is not allowed; only the text of ``NotAllowed`` is shown."""
    allowed: str
    secret: bool = False
    """Whether a value from the environment is a secret."""


_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


def read_duration(value: object) -> float:
    """``"500ms"``, ``"1s"``, ``"10m"``, ``"2h"``, ``"7d"`` as seconds. Raises: ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(ms|s|m|h|d)", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError
    return float(match[1]) * _SECONDS[match[2]]


def read_size(value: object) -> int:
    """``"256MiB"``, ``"1GB"`` or a count, in bytes; above zero. Raises: ValueError."""
    match = (
        re.fullmatch(rf"(\d+(?:\.\d+)?) ?({'|'.join(_BYTES)})?", str(value)) if not isinstance(value, bool) else None
    )
    size = int(float(match[1]) * _BYTES[match[2] or "B"]) if match else 0
    if size <= 0:
        raise ValueError
    return size


_TYPOGRAPHIC = "[“”„‟«»‘’‚‛]"
_KEY = re.compile(r"""\s*([\w."'-]+)\s*=""")
_HEADER = re.compile(r"""\s*\[{1,2}\s*([\w."'-]+)\s*\]{1,2}\s*(?:#.*)?""")
Duration: TypeAlias = Annotated[float, Reads(read_duration, 'a duration such as "500ms", "1s", "10m", "2h", "7d"')]
Size: TypeAlias = Annotated[int, Reads(read_size, 'a size above 0 such as "256MiB", "1GB" or a number of bytes')]


class Mistakes:
    """Collects every mistake of one file, to be reported together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._found: list[str] = []

    @property
    def count(self) -> int:
        """How many were found so far."""
        return len(self._found)

    def add(self, where: str, what: str) -> None:
        """Note a mistake at ``where``, such as ``[job] batch-rows``."""
        self._found.append(f"{where}: {what}" if where else what)

    def stop_if_any(self) -> None:
        """Raises: UsageError with one mistake, or one a line."""
        if len(self._found) == 1:
            raise UsageError(redact(f"{self.path}: {self._found[0]}"))
        if self._found:
            lines = "".join(f"\n  {mistake}" for mistake in self._found)
            raise UsageError(redact(f"{self.path}: {len(self._found)} mistakes{lines}"))


def read_toml(path: Path, what: str = "job file") -> dict[str, Any]:
    """Parse a TOML file. ``what``: its kind, for errors. Raises: UsageError that names the file and the place."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such {what}") from error
    except OSError as error:
        raise UsageError(f"{path}: the {what} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: the {what} is not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not valid TOML: {_toml_reason(text, str(error))}") from error
    except (ValueError, RecursionError) as error:  # what tomllib does not handle: huge numbers, deep arrays
        raise UsageError(f"{path}: the {what} cannot be read: {error}") from error


def _toml_reason(text: str, reason: str) -> str:
    """The mistake at the place that the parser names, in terms of the file if possible."""
    lines = text.splitlines()
    place = re.search(r"at line (\d+)", reason)
    number = min(int(place[1]) if place else len(lines), len(lines))
    if number and (quote := re.search(_TYPOGRAPHIC, lines[number - 1])):
        return f"line {number} has the typographic quote {quote[0]}; allowed: \" and '"
    if not any(word in reason for word in ("overwrite", "twice", "immutable")):
        return reason
    names = _names(lines[:number])  # the parser names the last line of a value
    same = [at for at, name in names if name == names[-1][1]]
    if len(same) < 2:
        return f'{reason}; a key that is also the start of another must be quoted: "catalog.uri" = …'
    allowed = "once, with all entries of a list together"
    return f"`{names[-1][1]}` is given twice, in lines {same[-2]} and {same[-1]}; allowed: {allowed}"


def _names(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Lines, from 1, at which a section or a key's value begins, with the whole name."""
    found, section = [], ""
    for at, line in enumerate(lines, 1):
        if header := _HEADER.fullmatch(line):
            section = f"{header[1]}."
            found.append((at, header[1]))
        elif key := _KEY.match(line):
            found.append((at, section + key[1]))
    return found


def flatten(raw: Raw, prefix: str = "") -> dict[str, object]:
    """``{"a": {"b": 1}}`` as ``{"a.b": 1}``: TOML reads an unquoted dotted key as nested tables."""
    flat: dict[str, object] = {}
    for key, value in raw.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def nearest(key: str, known: Iterable[str]) -> str:
    """``; did you mean `x`?``, or nothing if no known key is similar."""
    near = difflib.get_close_matches(key.lower().replace("_", "-"), list(known), n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""


def text_of(value: object) -> str | None:
    """A scalar as Spark and Kafka write it (``true``, ``8``); ``None`` for anything else."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def references(value: object, folder: Path, *, public: bool = False) -> tuple[object, bool]:
    """A value, or a list, with its references resolved, and whether there were any. Raises: ReferenceFault."""
    if isinstance(value, str):
        found = resolve(value, folder, public=public)
        return found, found != value
    if isinstance(value, list):
        pairs = [references(item, folder, public=public) for item in value]
        return [item for item, _ in pairs], any(changed for _, changed in pairs)
    return value, False


def read_options(raw: Raw, title: str, mistakes: Mistakes) -> dict[str, str]:
    """Read a table of free options: dotted keys, scalar values as text, references resolved."""
    options: dict[str, str] = {}
    for key, value in flatten(raw).items():
        where = f"[{title}] {key}"
        try:
            resolved, _ = references(value, mistakes.path.parent)
        except ReferenceFault as fault:
            mistakes.add(where, str(fault))
            continue
        text = text_of(resolved)
        if text is None:
            mistakes.add(where, f"found {value!r}; allowed: a string, a number, true or false")
            continue
        if is_secret_key(key) and len(text) > 1 and text not in ("true", "false"):
            remember(text)
            if key.rpartition(".")[2] == "credential":  # of a REST catalog: id:secret
                remember(text.partition(":")[2])
        options[key] = text
    return options


Hint: TypeAlias = Callable[[str, str, Iterable[str]], str]
"""Gives what to do about an unknown key. Arguments: the key, its section, the keys that the section has."""


def read_section(
    raw: Raw, kind: type[Section], title: str, mistakes: Mistakes, hint: Hint, more_known: Iterable[str] = ()
) -> dict[str, Any]:
    """Read a section's keys by the fields of ``kind``. Wrong keys are noted and skipped.

    ``more_known``: keys that are handled elsewhere and only help to name the nearest one.
    """
    hints = typing.get_type_hints(kind, include_extras=True)
    # A dict has free options, which have their own prefix in the file.
    fields = {
        field.encode_name: field
        for field in msgspec.structs.fields(kind)
        if typing.get_origin(hints[field.name]) is not dict
    }
    read: dict[str, Any] = {}
    for key in raw:
        if key not in fields:
            known = [*fields, *more_known]
            what = hint(key, title, known) or f"; allowed: {', '.join(sorted(known))}"
            mistakes.add(f"[{title}]", f"unknown key `{key}`{what}")
    for key, field in fields.items():
        where = f"[{title}] {key}"
        if key not in raw:
            if field.required:
                mistakes.add(where, "missing; it must be set")
            continue
        value, type_ = raw[key], hints[field.name]
        reads = reads_of(type_)
        try:
            resolved, changed = references(value, mistakes.path.parent, public=not (reads and reads.secret))
            read[field.name] = read_value(resolved, type_, from_elsewhere=changed)
        except (ReferenceFault, NotAllowed) as fault:
            mistakes.add(where, str(fault))
    return read


def read_value(value: object, hint: Any, *, from_elsewhere: bool = False) -> object:
    """Read a value by a field's type and annotations. ``from_elsewhere``: it is the value of a reference.

    Raises: NotAllowed that says what was found, without secrets, and what is allowed.
    """
    reads = reads_of(hint)
    try:
        if reads is not None:
            return reads.read(value)
        # A value from the environment is text, also for a number.
        return msgspec.convert(value, hint, strict=not from_elsewhere)
    except ValueError as error:  # msgspec's ValidationError is one
        told = str(error) if isinstance(error, NotAllowed) else ""
        allowed = told or (reads.allowed if reads else _allowed(hint))
        raise NotAllowed(f"found {redact(repr(value))}; allowed: {allowed}") from None


def reads_of(hint: Any) -> Reads | None:
    """The ``Reads`` that annotates a field's type, also inside ``X | None``."""
    if typing.get_origin(hint) is Annotated:
        return next((extra for extra in hint.__metadata__ if isinstance(extra, Reads)), None)
    return next((reads for arg in typing.get_args(hint) if (reads := reads_of(arg))), None)


_PLAIN = {str: "a string", int: "an integer", bool: "true or false", float: "a number"}


def _allowed(hint: Any) -> str:
    if typing.get_origin(hint) is Annotated:
        metas = [extra for extra in hint.__metadata__ if isinstance(extra, msgspec.Meta)]
        low = [f" of at least {meta.ge}" for meta in metas if meta.ge is not None]
        return _allowed(hint.__origin__) + "".join(low)
    if typing.get_origin(hint) is typing.Literal:
        return ", ".join(f'"{word}"' for word in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return "a list of strings"
    arms = [arm for arm in typing.get_args(hint) if arm is not type(None)]
    return " or ".join(_allowed(arm) for arm in arms) if arms else _PLAIN.get(hint, str(hint))
