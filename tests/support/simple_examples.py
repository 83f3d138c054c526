"""The Simple document's examples: a table, its rows and messages, and what its tests share."""

from __future__ import annotations

from typing import Any

from ticdc_spark import mysql
from ticdc_spark.model import (
    Column,
    ColumnType,
    Event,
    Index,
    Rejected,
    RowChange,
    Table,
)
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.simple.decode import DECODER
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

BUILD_TS = 1708923662983
ENCODER = encoder(SimpleConfig(build_ts=lambda: BUILD_TS))


def text_type(name: str, length: int) -> ColumnType:
    return ColumnType(name=name, length=length, charset="utf8mb4", collate="utf8mb4_bin")


USER = Table(
    schema="simple",
    name="user",
    table_id=148,
    version=447984074911121426,
    columns=(
        Column(name="id", type=mysql.parse_type("int"), nullable=False),
        Column(name="name", type=text_type("varchar", 255)),
        Column(name="age", type=mysql.parse_type("int")),
        Column(name="score", type=mysql.parse_type("float")),
    ),
    indexes=(Index(name="primary", unique=True, primary=True, nullable=False, columns=("id",)),),
)
ROW = {"id": "1", "name": "John Doe", "age": "25", "score": "90.5"}
USER_JSON = (
    '{"schema":"simple","table":"user","tableID":148,"version":447984074911121426,"columns":['
    '{"name":"id","dataType":{"mysqlType":"int","charset":"binary","collate":"binary","length":11},'
    '"nullable":false,"default":null},'
    '{"name":"name","dataType":{"mysqlType":"varchar","charset":"utf8mb4","collate":"utf8mb4_bin","length":255},'
    '"nullable":true,"default":null},'
    '{"name":"age","dataType":{"mysqlType":"int","charset":"binary","collate":"binary","length":11},'
    '"nullable":true,"default":null},'
    '{"name":"score","dataType":{"mysqlType":"float","charset":"binary","collate":"binary","length":12},'
    '"nullable":true,"default":null}],'
    '"indexes":[{"name":"primary","unique":true,"primary":true,"nullable":false,"columns":["id"]}]}'
)
HEAD = '{"version":1,"database":"simple","table":"user","tableID":148,"type":'
INSERT = (
    HEAD + '"INSERT","commitTs":447984084414103554,"buildTs":1708923662983,"schemaVersion":447984074911121426,'
    '"data":{"age":"25","id":"1","name":"John Doe","score":"90.5"}}'
)
UPDATE = (
    HEAD + '"UPDATE","commitTs":447984099186180098,"buildTs":1708923662983,"schemaVersion":447984074911121426,'
    '"data":{"age":"25","id":"1","name":"John Doe","score":"95"},'
    '"old":{"age":"25","id":"1","name":"John Doe","score":"90.5"}}'
)
DELETE = (
    HEAD + '"DELETE","commitTs":447984114259722243,"buildTs":1708923662983,"schemaVersion":447984074911121426,'
    '"old":{"age":"25","id":"1","name":"John Doe","score":"95"}}'
)
WATERMARK = '{"version":1,"type":"WATERMARK","commitTs":447984124732375041,"buildTs":1708923662983}'
BOOTSTRAP = f'{{"version":1,"type":"BOOTSTRAP","commitTs":0,"buildTs":1708923662983,"tableSchema":{USER_JSON}}}'
SQL = "ALTER TABLE `user` ADD COLUMN `createTime` TIMESTAMP"
ALTER = (
    f'{{"version":1,"type":"ALTER","sql":"{SQL}","commitTs":447987408682614795,"buildTs":1708923662983,'
    f'"tableSchema":{USER_JSON},"preTableSchema":{USER_JSON}}}'
)
EXAMPLES = [INSERT, UPDATE, DELETE, WATERMARK, BOOTSTRAP, ALTER]
TABLES = {("simple", "user", str(USER.version)): USER}


def opened(message: str | bytes) -> Event:
    (event,) = DECODER.open_message(None, message.encode() if isinstance(message, str) else message)
    return event


def reason(message: str | bytes | None) -> str:
    (event,) = DECODER.open_message(None, message.encode() if isinstance(message, str) else message)
    assert isinstance(event, Rejected)
    return event.reason


def change(op: Any, commit_ts: int, before: Any = None, after: Any = None) -> RowChange:
    return RowChange(op=op, table=USER, commit_ts=commit_ts, before=before, after=after, table_id=148)


def read(images: list[bytes | None], table: Table = USER, **options: Any) -> Any:
    return DECODER.row_reader(table, ReadOptions(**options))(images)


def one_column(column_type: ColumnType, name: str = "c") -> Table:
    column = Column(name=name, type=column_type)
    return Table(schema="s", name="t", version=1, table_id=1, columns=(column,))
