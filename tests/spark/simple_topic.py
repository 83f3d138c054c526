"""Topics of the Simple protocol, written event by event, of one small table unless given another."""

from collections.abc import Iterable
from pathlib import Path

from tests.support.recorded_topics import Line, write_json
from ticdc_spark.model import Bootstrap, Change, Column, ColumnType, Index, RowChange, SchemaChange, Table, Watermark
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

INT = ColumnType(name="int", length=11, charset="binary", collate="binary")
ID = Column(name="id", type=INT, nullable=False)
KEY = Index(name="primary", unique=True, primary=True, nullable=False, columns=("id",))


def table(version: int, *columns: Column, name: str = "t") -> Table:
    return Table(schema="s", name=name, columns=(ID, *columns), indexes=(KEY,), table_id=1, version=version)


def insert(of: Table, ts: int, **row: str | None) -> RowChange:
    return RowChange(op="insert", table=of, commit_ts=ts, after=row)


def ddl(kind: str, ts: int, query: str, after: Table, before: Table | None = None) -> SchemaChange:
    named = before or after
    return SchemaChange(
        commit_ts=ts, query=query, kind=kind, schema=named.schema, name=named.name, table=after, pre_table=before
    )


def topic(folder: Path, events: Iterable[Change], partition: int = 0) -> Path:
    """Record events in their order, in one partition."""
    simple = encoder(SimpleConfig())
    sent = []
    for event in events:
        match event:
            case RowChange():
                sent += list(simple.rows([event]))
            case SchemaChange():
                sent.append(simple.ddl(event))
            case Watermark(ts):
                sent.append(simple.watermark(ts))
            case Bootstrap(known):
                sent.append(simple.bootstrap(known))
    lines = [Line("topic", partition, at, None, one.key, one.value) for at, one in enumerate(sent) if one is not None]
    return write_json(folder / "topic" / f"{partition}.jsonl", lines).parent
