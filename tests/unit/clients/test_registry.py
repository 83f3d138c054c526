"""The schema registry's client against a small registry over real HTTP: what it answers, and what its errors mean."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from ticdc_spark.clients.registry import SchemaRegistry, schema_changes
from ticdc_spark.errors import IncompatibleSchema, MessageError, RegistryFault, UsageError
from ticdc_spark.wire.confluent import frame, schema_id, subjects


def schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "t", "namespace": "default.s", "fields": [*fields]})


def column(name: str, avro: str, tidb: str, **more: Any) -> dict[str, Any]:
    return {**more, "name": name, "type": {"type": avro, "connect.parameters": {"tidb_type": tidb}}}


OLD = schema(column("id", "int", "INT"), column("a", "string", "TEXT"))
NEW = schema(column("id", "long", "BIGINT"), column("b", "int", "INT"))
PASSWORD = "p@ss:w/ö"


class Handler(BaseHTTPRequestHandler):
    """Subject s-value holds OLD and takes nothing else; id 5 is OLD, 6 is no Avro, 7 fails, 8 is not JSON."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        if self.path.startswith("/schemas/ids/5"):
            self.answer(200, {"schema": OLD})
        elif self.path.startswith("/schemas/ids/6"):
            self.answer(200, {"schema": "message M {}", "schemaType": "PROTOBUF"})
        elif self.path.startswith("/schemas/ids/7"):
            self.answer(500, {"error_code": 50001, "message": "the store is gone"})
        elif self.path.startswith("/schemas/ids/8"):
            self.answer(200, None)
        elif self.path.startswith("/subjects/s-value/versions/latest"):
            self.answer(200, {"subject": "s-value", "version": 1, "id": 5, "schema": OLD})
        else:
            self.answer(404, {"error_code": 40403, "message": "Schema not found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.startswith("/subjects/s-value/"):
            self.answer(409, {"error_code": 409, "message": "Schema being registered is incompatible"})
        elif self.path.startswith("/subjects/x-value/"):
            self.answer(422, {"error_code": 42201, "message": "Invalid schema"})
        else:
            self.answer(200, {"id": 5, "version": 1, "schema": body["schema"]})

    def answer(self, status: int, body: Any) -> None:
        self.asked.append(f"{self.command} {self.path.partition('?')[0]}")
        user = base64.b64encode(f"us@er:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {user}":
            status, body = 401, {"error_code": 401, "message": "Unauthorized"}
        raw = b"<html>" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: Any) -> None:
        pass


OPENED: list[SchemaRegistry] = []


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.asked.clear()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}"
    while OPENED:
        OPENED.pop().close()
    server.shutdown()
    server.server_close()
    thread.join()


def registry(address: str, user: str = "us%40er:p%40ss%3Aw%2F%C3%B6@", **options: Any) -> SchemaRegistry:
    OPENED.append(SchemaRegistry(f"http://{user}{address}", {"max.retries": 0, "timeout": 5, **options}))
    return OPENED[-1]


def test_schemas_are_fetched_once_and_registered_once(address: str) -> None:
    found = registry(address)
    assert [found[5], found[5], dict(found.known)] == [OLD, OLD, {5: OLD}]
    assert [found.register("new-value", OLD), found.register("new-value", OLD)] == [5, 5]
    assert Handler.asked == ["GET /schemas/ids/5", "POST /subjects/new-value/versions"]


def test_a_registrys_answer_about_a_schema_is_data(address: str) -> None:
    found = registry(address)
    with pytest.raises(KeyError):
        found[404]
    with pytest.raises(MessageError, match="schema id 6 is PROTOBUF"):
        found[6]


def test_a_refused_schema_names_subject_column_and_change(address: str) -> None:
    with pytest.raises(IncompatibleSchema) as refused:
        registry(address).register("s-value", NEW)
    assert str(refused.value) == (
        "subject s-value: the registry refuses the new schema: column `id` was INT as int not null and is BIGINT "
        "as long not null; column `b` is new, INT as int not null, without a default; column `a` is gone "
        "(Schema being registered is incompatible)"
    )


@pytest.mark.parametrize(
    ("number", "expected"), [(7, "schema id 7: the store is gone"), (8, "schema id 8: Expecting value")]
)
def test_a_broken_registry_is_a_fault(address: str, number: int, expected: str) -> None:
    with pytest.raises(RegistryFault, match=expected) as fault:
        registry(address)[number]
    assert PASSWORD not in str(fault.value) and "p%40ss" not in str(fault.value)


def test_a_wrong_password_and_an_invalid_schema_are_faults(address: str) -> None:
    with pytest.raises(RegistryFault, match="Unauthorized"):
        registry(address, "us%40er:wrong@")[5]
    with pytest.raises(RegistryFault, match="subject x-value: Invalid schema"):
        registry(address).register("x-value", OLD)


def test_a_registry_that_is_down_is_a_fault() -> None:
    with SchemaRegistry("http://127.0.0.1:1", {"max.retries": 0}) as down:
        with pytest.raises(RegistryFault, match=r"schema registry http://127.0.0.1:1, schema id 5: "):
            down[5]
        with pytest.raises(RegistryFault, match="subject t-value"):
            down.register("t-value", OLD)


def test_user_and_password_may_be_options(address: str) -> None:
    assert registry(address, "", **{"basic.auth.user.info": f"us@er:{PASSWORD}"})[5] == OLD


@pytest.mark.parametrize(
    ("url", "options", "expected"),
    [
        ("", {}, "needs a URL"),
        ("127.0.0.1:8081", {}, "begins with http"),
        ("http://", {}, "names a host"),
        ("http://127.0.0.1:1", {"ssl.ca.location": "/nowhere/ca.pem"}, "there is no file ssl.ca.location /nowhere"),
        ("http://127.0.0.1:1", {"no.such.option": 1}, "no.such.option"),
    ],
)
def test_what_the_client_does_not_take(url: str, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        SchemaRegistry(url, options)


def test_changes_of_a_schema() -> None:
    enum = column("e", "string", "ENUM")
    enum["type"]["connect.parameters"]["allowed"] = "a,b"
    nullable = {"name": "a", "type": ["null", {"type": "string", "connect.parameters": {"tidb_type": "TEXT"}}]}
    extra = {"name": "_tidb_op", "type": "string", "default": ""}
    assert schema_changes(OLD, schema(column("id", "int", "INT", default=7), nullable, enum, extra)) == [
        "column `id` was without a default and is with default 7",
        "column `a` was TEXT as string not null and is TEXT as string",
        "column `e` is new, ENUM(a,b) as string not null, without a default",
        'column `_tidb_op` is new, string not null, with default ""',
    ]
    assert schema_changes("not JSON", OLD) == []


def test_framing_and_subjects() -> None:
    assert schema_id(frame(2**32 - 1) + b"x") == 2**32 - 1
    assert subjects("odd_db.1_a-b") == ("odd_db_1_a-b-key", "odd_db_1_a-b-value")
    for bad in (b"", b"\0\0\0\0", b"\1\0\0\0\1", b"{}   "):
        with pytest.raises(MessageError, match="no schema registry framing"):
            schema_id(bad)
