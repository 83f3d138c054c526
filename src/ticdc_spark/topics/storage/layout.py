"""The names of a storage sink's files, and which of them exist.

::

    metadata                                              {"checkpoint-ts": …}
    <schema>/meta/schema_<version>_<checksum>.json        a DDL of the database
    <schema>/<table>/meta/schema_<version>_<checksum>.json
    <schema>/<table>/<version>[/<partition>][/<date>]/CDC<number>.json
    <schema>/<table>/<version>[/<partition>][/<date>]/meta/CDC.index      the name of the last complete file

TiCDC v6.5.0 to v6.5.2, v6.6.0 and v7.0.0 write ``<version>/schema.json`` instead, and either no index or one that is
not in ``meta``. These are not read.

With ``use-table-id-as-path`` the table's id replaces ``<schema>/<table>``. With tables across nodes, the names have a
dispatcher: ``CDC_<dispatcher>_<number>.json``, ``CDC_<dispatcher>.index``. Source: ``pkg/cloudstorage`` of TiCDC.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from ticdc_spark.errors import SourceFault
from ticdc_spark.topics.storage.files import Files, Listed

METADATA = "metadata"
_META = "meta"
_SCHEMA = re.compile(r"schema_(\d{1,20})_(\d{10})\.json")
_DATA = re.compile(r"CDC(?:_(.+)_)?(\d{6,20})(\.(?:json|csv))")
_VERSION = re.compile(r"\d{1,20}")
_OLD = re.compile(r"schema\.json|CDC\.index")
"""Files that older versions of TiCDC write beside the rows."""
_KEY = re.compile(rb"(metadata|.*/(?:CDC|schema_)[^/]*\.(?:json|csv))(?::(\d+))?", re.DOTALL)
_DATE = re.compile(r"\d{4}-\d{2}(?:-\d{2})?")
"""A day or a month. A year would look like a partition's number."""


def key_of(path: str, line: int = 0) -> bytes:
    """The key of a message: its file, and the number of its line, from 1."""
    return f"{path}:{line}".encode() if line else path.encode()


def place_of(key: bytes | None) -> str:
    """The place that a key names, for error texts; ``""``: it is not from a storage sink."""
    match = _KEY.fullmatch(key or b"")
    if match is None:
        return ""
    path = match[1].decode("utf-8", "replace")
    return f"{path}, line {match[2].decode()}" if match[2] else path


class SchemaName(msgspec.Struct, frozen=True):
    """A schema file."""

    path: str
    root: str
    """The folder of its table, or of its database."""
    version: int


class DataFolder(msgspec.Struct, frozen=True):
    """A folder with rows of one version of a table."""

    path: str
    root: str
    version: int
    partition: int = 0
    """The physical id; 0: none in the path."""
    date: str = ""
    """``""``: none in the path."""


class DataName(msgspec.Struct, frozen=True):
    """A file with rows."""

    name: str
    folder: DataFolder
    dispatcher: str
    number: int
    extension: str
    size: int

    @property
    def path(self) -> str:
        return f"{self.folder.path}/{self.name}"

    @property
    def sequence(self) -> tuple[str, str]:
        """The sequence of a file. In it, file numbers rise by one."""
        return self.folder.path, self.dispatcher

    @property
    def index(self) -> str:
        """The file that names the last complete file."""
        return f"{self.folder.path}/{_META}/CDC{f'_{self.dispatcher}' if self.dispatcher else ''}.index"


class Walked(msgspec.Struct, frozen=True):
    """The existing files."""

    schemas: tuple[SchemaName, ...]
    data: tuple[DataName, ...]
    """By sequence and number."""
    old: tuple[str, ...] = ()
    """Files of TiCDC v6.5.0 to v6.5.2, v6.6.0 or v7.0.0. Rows beside them are not among ``data``."""


def walk(files: Files, since: str) -> Walked:
    """List a storage sink, without folders of a day or month before ``since`` (``2026-01-31``).

    Raises: SourceFault
    """
    schemas, roots, old = _tables(files)
    folders: list[DataFolder] = []
    data: list[DataName] = []
    level = [DataFolder(f"{root}/{version}", root, int(version)) for root, version in roots]
    while level:
        found = files.look_into([folder.path for folder in level])
        below: list[DataFolder] = []
        for folder, listed in zip(level, found, strict=True):
            old += _old(folder.path, listed)
            data += data_in(folder, listed)
            below += _below(folder, listed, since)
        folders += level
        level = below
    return Walked(
        tuple(sorted(schemas, key=lambda one: (one.version, one.root, one.path))),
        tuple(sorted(data, key=lambda one: (one.sequence, one.number))),
        tuple(old),
    )


def indexed(files: Files, names: Sequence[DataName]) -> dict[tuple[str, str], int]:
    """The number of the last complete file of each sequence. A sequence without a complete file is omitted.

    Raises: SourceFault
    """
    indexes = {name.sequence: name.index for name in names}
    found: dict[tuple[str, str], int] = {}
    for (sequence, path), content in zip(indexes.items(), files.find(list(indexes.values())), strict=True):
        if content is None:
            continue
        named = _DATA.fullmatch(content.decode("utf-8", "replace").rstrip("\r\n"))
        if named is None:
            raise SourceFault(f"{files.where}/{path}: begins with {content[:40]!r}; allowed: the name of a file")
        found[sequence] = int(named[2])
    return found


def _tables(files: Files) -> tuple[list[SchemaName], list[tuple[str, str]], list[str]]:
    """The schema files, (folder of a table, version) of the folders with rows, and files of old versions."""
    (top,) = files.look_into([""])
    tops = dict(zip(top.folders, files.look_into(top.folders), strict=True))
    names = [f"{name}/{below}" for name, listed in tops.items() for below in listed.folders]
    lists = dict(zip(names, files.look_into(names), strict=True))
    schemas: list[SchemaName] = []
    tables: list[str] = []
    roots: list[tuple[str, str]] = []
    old: list[str] = []
    for name, listed in tops.items():
        own = list(_schemas(name, lists.get(f"{name}/{_META}", Listed())))
        schemas += own
        below = [one for one in listed.folders if one != _META]
        if own and _VERSION.fullmatch(name) and _is_table(files, own[0]):
            roots += [(name, version) for version in below if _VERSION.fullmatch(version)]
            continue
        if _META in lists.get(f"{name}/{_META}", Listed()).folders:
            below.append(_META)  # a table with that name
        tables += [f"{name}/{one}" for one in below]
    for root in tables:
        listed = lists[root]
        if _VERSION.fullmatch(root.rpartition("/")[2]):  # an older version writes a DDL of a database like this
            old += _old(root, listed)
        if any(_DATA.fullmatch(name) for name, _ in listed.files) or any(map(_DATE.fullmatch, listed.folders)):
            raise SourceFault(
                f"{files.where}/{root} has rows of an unknown table: there is no schema file "
                f"{root.partition('/')[0]}/{_META}/schema_….json. Restore it"
            )
    _stop_if_deeper(files, [f"{root}/{name}" for root in tables for name in lists[root].folders])
    metas = [f"{root}/{_META}" for root in tables if _META in lists[root].folders]
    for path, listed in zip(metas, files.look_into(metas), strict=True):
        schemas += _schemas(path.rpartition("/")[0], listed)
    roots += [(root, version) for root in tables for version in lists[root].folders if _VERSION.fullmatch(version)]
    return schemas, roots, old


def _stop_if_deeper(files: Files, folders: Sequence[str]) -> None:
    """Raises: SourceFault for a name with a slash, which TiCDC writes unchanged into a path"""
    odd = [path for path in folders if (name := path.rpartition("/")[2]) != _META and not _VERSION.fullmatch(name)]
    for path, listed in zip(odd, files.look_into(odd), strict=True):
        if _META in listed.folders:
            raise SourceFault(
                f"{files.where}/{path} is of a table or database whose name has a slash, and it cannot be told where "
                "the name ends. Rename it, or exclude it from the changefeed, and remove the folder"
            )


def _old(path: str, listed: Listed) -> list[str]:
    return [f"{path}/{name}" for name, _ in listed.files if _OLD.fullmatch(name)]


def _is_table(files: Files, name: SchemaName) -> bool:
    """Whether a schema file is of a table whose folder is named by the table's id."""
    try:
        found = msgspec.json.decode(files.find([name.path])[0] or b"", type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return bytes(found.get("TableColumnsTotal", b"0")) != b"0"


def _schemas(root: str, listed: Listed) -> Iterator[SchemaName]:
    for name, _ in listed.files:
        if match := _SCHEMA.fullmatch(name):
            yield SchemaName(f"{root}/{_META}/{name}", root, int(match[1]))


def data_in(folder: DataFolder, listed: Listed) -> Iterator[DataName]:
    """The files with rows directly in a folder."""
    for name, size in listed.files:
        if match := _DATA.fullmatch(name):
            yield DataName(name, folder, match[1] or "", int(match[2]), match[3], size)


def _below(folder: DataFolder, listed: Listed, since: str) -> Iterator[DataFolder]:
    for name in listed.folders:
        path = f"{folder.path}/{name}"
        if _DATE.fullmatch(name):
            if name >= since[: len(name)]:
                yield msgspec.structs.replace(folder, path=path, date=name)
        elif _VERSION.fullmatch(name):
            is_year = len(name) == 4 and folder.partition
            named = {"date": name} if is_year else {"partition": int(name)}
            yield msgspec.structs.replace(folder, path=path, **named)
