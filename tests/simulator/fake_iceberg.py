"""As much of Iceberg's Java API as ``sinks.iceberg`` calls for rows and stamps, over a table in memory.

The real code runs here, and each commit of it is an action of its own. A transaction is put on top of what another
writer committed meanwhile, as Iceberg does it: its snapshot keeps its id and gets a later sequence number. One that
changes a schema is refused then (CommitFailedException), and so is a row delta if rows changed (ValidationException).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
from py4j.protocol import Py4JJavaError

from tests.memory_sink.lake import Lake, MemoryTable
from tests.simulator.files import Files, Rival
from ticdc_spark.model import TableName
from ticdc_spark.names import escape
from ticdc_spark.sinks.history import UPKEEP, Commit, Note
from ticdc_spark.sinks.iceberg import commits, stamps
from ticdc_spark.sinks.iceberg.catalog import PROPERTIES, IcebergCatalog
from ticdc_spark.sinks.iceberg.types import iceberg_type
from ticdc_spark.sinks.tally import Tally
from ticdc_spark.spark.storage import LOCAL

_SPEC = SimpleNamespace(specId=lambda: 0)


class Refused(Py4JJavaError):  # type: ignore[misc]
    """An exception of Iceberg's."""

    def __init__(self, name: str, text: str) -> None:
        Exception.__init__(self, text)
        self.java_exception = _JavaException(name, text)

    def __str__(self) -> str:
        return str(self.java_exception)


class _JavaException:
    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def getClass(self) -> Any:  # noqa: N802
        full = f"org.apache.iceberg.exceptions.{self._name}"
        return SimpleNamespace(getSimpleName=lambda: self._name, getName=lambda: full)

    def getCause(self) -> None:  # noqa: N802
        return None

    def getMessage(self) -> str:  # noqa: N802
        return self._text

    def __str__(self) -> str:
        return f"{self._name}: {self._text}"


class _Any:
    """Whatever is asked of it, it gives itself."""

    path = ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any) -> Any:
        return self


class _Builder(_Any):
    """Of a data file."""

    def withPath(self, path: str) -> _Builder:  # noqa: N802
        self.path = path
        return self

    def build(self) -> _Builder:
        return self


class _Iceberg(_Any):
    """The package."""

    def __init__(self) -> None:
        self.DataFiles = SimpleNamespace(builder=lambda _spec: _Builder())
        self.SnapshotParser = SimpleNamespace(toJson=lambda snapshot: snapshot.text())
        self.SchemaParser = SimpleNamespace(toJson=lambda schema: schema.text())
        self.PartitionSpecParser = SimpleNamespace(toJson=lambda _spec: '{"spec-id":0,"fields":[]}')
        mapper = SimpleNamespace(writeValueAsString=json.dumps)
        self.util = SimpleNamespace(JsonUtil=SimpleNamespace(mapper=lambda: mapper))


class FakeCatalog(IcebergCatalog):
    """The tables of a lake in memory as ``sinks.iceberg`` sees them."""

    def __init__(self, lake: Lake, files: Files, fence: Callable[[], None]) -> None:
        self.lake, self.files, self.fence = lake, files, fence
        self.name, self.warehouse, self.properties = "lake", "/lake", dict(PROPERTIES)
        self.iceberg, self.java = _Iceberg(), _Any()
        self.lookup: Any = _Any()
        self.conflicts = Tally()
        self.storages: Any = SimpleNamespace(of=lambda _loaded: LOCAL)
        self.action: tuple[str, Callable[[], None]] | None = None
        """What the next snapshot is: in words, and what makes it current."""

    def load_table(self, table: TableName) -> Any:
        return _Table(self, table, self.lake.table(table))

    def columns_of(self, loaded: Any) -> dict[str, str]:
        return {field.name: field.type.spark for field in loaded.held.fields}


class _Snapshot:
    def __init__(self, commit: Commit) -> None:
        self.commit = commit

    def snapshotId(self) -> int:  # noqa: N802
        return self.commit.id

    def sequenceNumber(self) -> int:  # noqa: N802
        return self.commit.sequence

    def text(self) -> str:
        stamp = self.commit.stamp
        found: dict[str, Any] = {
            "snapshot-id": self.commit.id,
            "sequence-number": self.commit.sequence,
            "summary": {
                "operation": self.commit.operation,
                "total-data-files": "1",
                **({} if stamp is None else stamps.summary(stamp, stamp.about)),
            },
        }
        return json.dumps(found if self.commit.parent is None else {**found, "parent-snapshot-id": self.commit.parent})


class _Schema:
    def __init__(self, table: _Table) -> None:
        self.table = table

    def text(self) -> str:
        required = self.table.sink.files.required
        fields = [
            {"id": field.id, "name": field.name, "type": iceberg_type(field.type), "required": field.id in required}
            for field in self.table.held.fields
            if field.type.arrow != "floats"
        ]
        return json.dumps({"type": "struct", "schema-id": 0, "fields": fields})


class _Table:
    """A table as it was when it was loaded, or as a transaction makes it."""

    def __init__(self, sink: FakeCatalog, name: TableName, held: MemoryTable, new: Commit | None = None) -> None:
        self.sink, self.name, self.held, self.new = sink, name, held, new
        self.base = held.current

    def currentSnapshot(self) -> _Snapshot | None:  # noqa: N802
        if self.new is not None:
            return _Snapshot(self.new)
        return None if self.base is None else self.snapshot(self.base)

    def snapshot(self, number: int) -> _Snapshot | None:
        if self.new is not None and self.new.id == number:
            return _Snapshot(self.new)
        commit = self.held.commits.get(number)
        return None if commit is None else _Snapshot(commit)

    def properties(self) -> Mapping[str, str]:
        return self.sink.properties | to_properties(self.held.note)

    def operations(self) -> Any:
        current = SimpleNamespace(formatVersion=lambda: 2, previousFiles=list, specs=lambda: [_SPEC])
        return SimpleNamespace(current=lambda: current)

    def location(self) -> str:
        return f"/lake/{escape(self.name[0])}/{escape(self.name[1])}"

    def spec(self) -> Any:
        return _SPEC

    def specs(self) -> Any:
        return {0: _SPEC}

    def schema(self) -> _Schema:
        return _Schema(self)

    def io(self) -> Any:
        return SimpleNamespace(deleteFile=self.sink.files.remove)

    def newTransaction(self) -> _Transaction:  # noqa: N802
        self.base = self.held.current  # Iceberg refreshes the table here
        return _Transaction(self)

    def updateSchema(self) -> _SchemaUpdate:  # noqa: N802
        return _SchemaUpdate(self)


class _SchemaUpdate:
    """Of a table, in a commit of its own."""

    def __init__(self, table: _Table) -> None:
        self.table, self.optional = table, set[int]()

    def makeColumnOptional(self, name: str) -> _SchemaUpdate:  # noqa: N802
        self.optional |= {field.id for field in self.table.held.fields if field.name == name}
        return self

    def commit(self) -> None:
        files = self.table.sink.files
        what = f"let columns of {'.'.join(self.table.name)} hold NULL"
        self.table.sink.lake.durable(what, lambda: files.required.difference_update(self.optional))


class _Produces(_Any):
    """A row delta, or an empty append: what gives a transaction its snapshot."""

    def __init__(self, transaction: _Transaction, *, is_delta: bool) -> None:
        self.transaction, self.is_delta = transaction, is_delta
        self.summary: dict[str, str] = {}

    def addRows(self, file: Any) -> _Produces:  # noqa: N802
        self.transaction.paths.append(file.path)
        return self

    def set(self, key: str, value: str) -> _Produces:
        self.summary[key] = value
        return self

    def commit(self) -> None:
        self.transaction.produce(self.summary, is_delta=self.is_delta)


class _Properties:
    def __init__(self, into: dict[str, str | None]) -> None:
        self.into = into

    def set(self, key: str, value: str) -> None:
        self.into[key] = value

    def remove(self, key: str) -> None:
        self.into[key] = None

    def commit(self) -> None:
        return


class _Transaction:
    def __init__(self, table: _Table) -> None:
        self._table, self.base = table, table.base
        self.paths: list[str] = []
        self.properties: dict[str, str | None] = {}
        self.new: Commit | None = None
        self.is_delta = self.asserts_schema = False

    def table(self) -> _Table:
        return _Table(self._table.sink, self._table.name, self._table.held, self.new)

    def newRowDelta(self) -> _Produces:  # noqa: N802
        return _Produces(self, is_delta=True)

    def newFastAppend(self) -> _Produces:  # noqa: N802
        return _Produces(self, is_delta=False)

    def updateProperties(self) -> _Properties:  # noqa: N802
        return _Properties(self.properties)

    def updateSchema(self) -> Any:  # noqa: N802
        self.asserts_schema = True
        return _Any()

    def produce(self, summary: Mapping[str, str], *, is_delta: bool) -> None:
        """Plan a snapshot."""
        stamp = stamps.note_of(summary)
        assert stamp is not None, "every commit has its mark"
        number, operation = self._table.sink.lake.next_id(), "overwrite" if is_delta else "append"
        self.is_delta = is_delta
        self.new = Commit(
            id=number, parent=self.base, sequence=self._next_sequence(), operation=operation, stamp=stamp.stamp
        )

    def getClass(self) -> Any:  # noqa: N802
        return SimpleNamespace(getSimpleName=lambda: "BaseTransaction")

    def startMetadata(self) -> Any:  # noqa: N802
        return SimpleNamespace(snapshots=list)

    def currentMetadata(self) -> Any:  # noqa: N802
        return SimpleNamespace(snapshots=lambda: [] if self.new is None else [_Snapshot(self.new)])

    def underlyingOps(self) -> Any:  # noqa: N802
        return SimpleNamespace(commit=lambda _start, _current: self.commitTransaction())

    def commitTransaction(self) -> None:  # noqa: N802
        """Durable. Raises: Refused; what the injector and the fence raise"""
        sink = self._table.sink
        rival = sink.files.meet(is_second=self.new is None)
        name = ".".join(self._table.name)
        what, make = sink.action if sink.action and self.new else (f"write the properties of {name}", None)
        sink.lake.durable(what, lambda: self._commit(make, rival))

    def _commit(self, make: Callable[[], None] | None, rival: Rival | None) -> None:
        sink, held = self._table.sink, self._table.held
        sink.fence()
        if rival is not None:
            rival.act(sink.lake, held)
            if rival.is_refused(is_second=self.new is None):
                sink.files.refused += 1
                raise Refused("CommitFailedException", "the catalog refused it, and every try after it (injected)")
        since = self._since(held)
        if since and self.asserts_schema:
            raise Refused("CommitFailedException", "Requirement failed: current schema changed")
        if self.is_delta and any(one.operation not in UPKEEP for one in since):
            raise Refused("ValidationException", "Found conflicting files")
        if self.new is not None and make is not None:
            self._make(held, make)
        before = sink.properties | to_properties(held.note)
        after = {key: value for key, value in {**before, **self.properties}.items() if value is not None}
        held.note = stamps.note_of(after)
        for path in self.paths:
            sink.files.committed.add(path)

    def _make(self, held: MemoryTable, make: Callable[[], None]) -> None:
        """The snapshot that was planned becomes the current one, on top of what others committed meanwhile."""
        assert self.new is not None
        sequence, parent = self._next_sequence(), held.current
        make()
        assert held.current is not None, "it was made"
        made, _ = held.snapshots.pop(held.current), held.commits.pop(held.current)
        self.new = msgspec.structs.replace(self.new, sequence=sequence, parent=parent, operation=made.operation)
        held.snapshots[self.new.id] = replace(made, id=self.new.id)
        held.commits[self.new.id] = msgspec.structs.replace(self.new, stamp=made.stamp)
        held.current = self.new.id
        while self._table.sink.lake.next_id() < sequence:
            pass

    def _since(self, held: MemoryTable) -> list[Commit]:
        """What others committed since the transaction began."""
        found, at = [], held.current
        while at is not None and at != self.base and at in held.commits:
            found.append(held.commits[at])
            at = held.commits[at].parent
        return found

    def _next_sequence(self) -> int:
        return 1 + max((commit.sequence for commit in self._table.held.commits.values()), default=0)


@contextmanager
def without_pauses() -> Iterator[None]:
    """Without the real sink's pauses between its tries: in a story time does not pass by itself."""
    pause = getattr(commits, "_PAUSE_S", None)
    if pause is None:
        yield
        return
    setattr(commits, "_PAUSE_S", 0.0)  # noqa: B010
    try:
        yield
    finally:
        setattr(commits, "_PAUSE_S", pause)  # noqa: B010


def to_properties(note: Note | None) -> dict[str, str]:
    """A note as properties of a table: the other way round than ``stamps.note_of``."""
    if note is None:
        return {}
    found: dict[str, str | None] = {}
    place = None if note.snapshot is None else (note.snapshot, note.sequence)
    into = SimpleNamespace(updateProperties=lambda: _Properties(found))
    stamps.set_properties(into, place, note.stamp, note.changed_by)
    return {key: value for key, value in found.items() if value is not None}
