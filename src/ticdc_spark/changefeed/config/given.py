"""The value of each key. The sink URI overrides the file, and the command line overrides both."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ticdc_spark.changefeed.config.key import OURS, Key
from ticdc_spark.changefeed.config.keys import BY_ID, BY_URI, SECTIONS, key
from ticdc_spark.changefeed.config.sink_uri import WHERE, Parameter, remember_secret
from ticdc_spark.config.paths import registry_files
from ticdc_spark.config.secrets import ReferenceFault, is_secret_key
from ticdc_spark.config.toml import Mistakes, nearest, read_options, references

T = TypeVar("T", bound=msgspec.Struct)
_RAW = {"sink-uri", f"{OURS}.sink-uri"}
"""Keys whose references are resolved after the URI is split."""
REGISTRY_OPTIONS = f"{OURS}.schema-registry"
_LAST = "sink.debezium.include-start-ts"
"""The only switch that the URI can turn off if the file turns it on, as in TiCDC."""


class Entry:
    """The values of one TOML table, or of all, by the key's id."""

    def __init__(self, where: str = "") -> None:
        self.where = where
        """The place of an array's entry: ``[[sink.dispatchers]] 2``."""
        self.values: dict[str, Any] = {}
        self.places: dict[str, str] = {}
        self.wrong: set[str] = set()
        """Ids of keys whose value could not be read."""

    def given(self, name: str) -> bool:
        """Whether there is a value."""
        return name in self.values

    def get(self, name: str) -> Any:
        """The value of a key, or its default."""
        return self.values[name] if name in self.values else key(name).otherwise

    def place(self, name: str) -> str:
        """The place of the value, for messages; without a value, where it would be."""
        if name in self.places:
            return self.places[name]
        found = key(name)
        return f"{self.where} {found.name}" if self.where else found.place


def read_keys(kind: type[T], prefix: str, entry: Entry, **others: Any) -> T:
    """Settings whose fields are named like the keys after ``prefix``, with ``_`` for ``-``. ``others``: more fields."""
    names = (name for name in kind.__struct_fields__ if name not in others)
    return kind(**{name: entry.get(prefix + name.replace("_", "-")) for name in names}, **others)


class Given(Entry):
    """All values, mistakes and warnings."""

    def __init__(self, mistakes: Mistakes, folder: Path) -> None:
        super().__init__()
        self.mistakes = mistakes
        self.folder = folder
        self.entries: dict[str, list[Entry]] = {}
        """Entries of arrays of tables, by section."""
        self.warnings: list[str] = []
        self.ignored: dict[str, list[str]] = {}
        """Places of ignored keys, by the reason."""
        self.registry_options: dict[str, str] = {}

    def mistake(self, name: str, what: str) -> None:
        """Note a mistake at a key."""
        self.mistakes.add(self.place(name), what)

    def warn(self, name: str, what: str) -> None:
        """Note a warning at a key."""
        self.warnings.append(f"{self.place(name)}: {what}")

    def read_file(self, raw: Mapping[str, Any], section: str = "", entry: Entry | None = None) -> None:
        """Read a table of the file. Names are in any case, as in TiCDC."""
        entry = entry or self
        for name, value in raw.items():
            inner = f"{section}.{name.lower()}" if section else name.lower()
            found = BY_ID.get(inner)
            if inner == REGISTRY_OPTIONS and isinstance(value, Mapping):
                options = read_options(value, inner, self.mistakes)
                self.registry_options = registry_files(options, self.folder / "any", f"[{inner}] ", self.mistakes)
            elif found is not None:
                self._take_toml(found, value, entry)
            elif inner in SECTIONS:
                if isinstance(value, Mapping):
                    self.read_file(value, inner)
                else:
                    self.mistakes.add(f"[{inner}]", "allowed: a section")
            elif f"{inner}[]" in SECTIONS:
                self._read_entries(inner, value)
            else:
                self._unknown(name, section, entry)

    def _read_entries(self, section: str, value: object) -> None:
        if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
            self.mistakes.add(f"[[{section}]]", "allowed: an array of tables")
            return
        if section in self.entries:
            self.mistakes.add(f"[[{section}]]", "given twice, in upper and lower case")
        found = self.entries[section] = [Entry(f"[[{section}]] {number}") for number in range(1, len(value) + 1)]
        for entry, item in zip(found, value, strict=True):
            self.read_file(item, f"{section}[]", entry)

    def _unknown(self, name: str, section: str, entry: Entry) -> None:
        where = entry.where or (f"[{section}]" if section else "")
        here = [known.name for known in BY_ID.values() if known.section == section]
        here += [inner.rpartition(".")[2].removesuffix("[]") for inner in SECTIONS if _outer(inner) == section]
        near = nearest(name, here)
        if not near:
            elsewhere = sorted(known.place for known in BY_ID.values() if name.lower() in (known.name, known.uri))
            sections = sorted(_title(inner) for inner in SECTIONS if _title(inner).strip("[]").endswith(f".{name}"))
            near = "; it belongs to " + " or ".join(elsewhere + sections) if elsewhere or sections else ""
        self.mistakes.add(where, f"unknown key `{name}`{near or '; allowed: ' + ', '.join(sorted(here))}")

    def _take_toml(self, found: Key, value: object, entry: Entry) -> None:
        place = f"{entry.where} {found.name}" if entry.where else found.place
        if found.id in entry.values:
            self.mistakes.add(place, "given twice")
            return
        elsewhere = False
        if found.id not in _RAW:
            try:
                value, elsewhere = references(value, self.folder, public=not found.secret)
            except ReferenceFault as fault:
                self.mistakes.add(place, str(fault))
                entry.wrong.add(found.id)
                return
        self._take(found, value, place, entry, from_text=elsewhere)

    def read_uri(self, parameters: tuple[Parameter, ...]) -> None:
        """Read the parameters of the sink URI, which override the file."""
        for parameter in parameters:
            found = BY_URI.get(parameter.name)
            if found is None:
                if parameter.name == "topic":
                    path = "the topic is the path of the URI, kafka://host:port/topic; remove this parameter"
                    self.mistakes.add(WHERE, f"unknown key `topic`: {path}")
                    continue
                inside = [known.place for known in BY_ID.values() if known.name == parameter.name]
                hint = f"; it belongs to the file: {inside[0]}" if inside else nearest(parameter.name, BY_URI)
                allowed = f"; allowed: {', '.join(sorted(BY_URI))}"
                self.mistakes.add(WHERE, f"unknown key `{parameter.name}`{hint or allowed}")
                continue
            self._take(found, parameter.value, f"{WHERE} {parameter.name}", self, from_text=True, over=True)

    def read_overrides(self, overrides: Mapping[str, object]) -> None:
        """Read the command line's values for keys of our own section."""
        for name, value in overrides.items():
            found = BY_ID.get(f"{OURS}.{name}")
            if found is None:
                self.mistakes.add("command line", f"unknown key `{name}`")
            elif value is not None:
                self.values.pop(found.id, None)
                self._take(found, value, f"--{name}", self, from_text=isinstance(value, str))

    def _take(
        self, found: Key, value: object, place: str, entry: Entry, *, from_text: bool, over: bool = False
    ) -> None:
        if value == "" and found.kind.parse is str:
            return  # as if it were missing, as in TiCDC
        if isinstance(value, str) and (found.secret or is_secret_key(found.name)):
            remember_secret(value, url=found.url)
        parsed = value
        try:
            parsed = found.kind.parse(value) if from_text and isinstance(value, str) else value
            read = found.kind.read(parsed)
        except ValueError as error:
            if found.use == "ignored" and found.kind.is_of_type(parsed):
                self._judge(found, parsed, place)  # TiCDC checks such a value only when it uses it
                return
            shown = "" if found.secret else f"found {_shown(value)}; "
            self.mistakes.add(place, f"{shown}allowed: {str(error) or found.kind.allowed}")
            entry.wrong.add(found.id)
            return
        if over and found.id in entry.values and self._stays(found, read, entry):
            return
        entry.values[found.id] = read
        entry.places[found.id] = place
        self._judge(found, read, place)

    def _stays(self, found: Key, read: object, entry: Entry) -> bool:
        """Whether the file's value stays: a URI cannot set ``false`` or 0, which are empty values in Go."""
        before = entry.values[found.id]
        if read == before:
            return True
        if found.id in ("sink.protocol", "sink.transaction-atomicity"):
            self.warnings.append(f"{found.place} is {before!r} in the file; {read!r} of the sink URI is taken")
        if read or found.id == _LAST or isinstance(read, str):
            return False
        was = str(before).lower()
        self.warnings.append(
            f"{WHERE} {found.name}: {str(read).lower()} does not replace {was} of the file, as in TiCDC; "
            f"remove the key from the file"
        )
        return True

    def _judge(self, found: Key, read: object, place: str) -> None:
        if found.use == "ignored":
            places = self.ignored.setdefault(found.reason, [])
            if place not in places:
                places.append(place)
        elif found.use == "refused" and read != found.otherwise:
            shown = "" if found.secret else f"found {_shown(read)}; "
            only = f"; allowed: {_shown(found.otherwise)}" if found.default is not None else ""
            self.mistakes.add(place, f"{shown}not supported: {found.reason}{only}")

    def all_warnings(self) -> tuple[str, ...]:
        """The warnings, one sentence each. Keys that are ignored for the same reason share one."""
        ignored = [f"{', '.join(places)}: has no effect here: {reason}" for reason, places in self.ignored.items()]
        return (*self.warnings, *ignored)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"


def _outer(section: str) -> str:
    return section.rpartition(".")[0]


def _title(section: str) -> str:
    return f"[[{section[:-2]}]]" if section.endswith("[]") else f"[{section}]"
