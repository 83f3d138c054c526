"""Which rows the job is asked to read again, and how their keys are written."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.unit.verify.tables import plan
from ticdc_spark.ddl import parse_create
from ticdc_spark.model import Value
from ticdc_spark.mysql import handle_key
from ticdc_spark.protocols.base import ReadOptions
from ticdc_spark.protocols.simple.rows import row_reader
from ticdc_spark.spark.types import LakeOptions
from ticdc_spark.verify.compare import Difference
from ticdc_spark.verify.repair import key_images, rows_to_repair, with_keys
from ticdc_spark.verify.report import TableReport

REPORT = TableReport(
    table="s.t", target="s.t", result="different", condition="", differences=2, keys=('{"id":"1"}', '{"id":"2"}')
)


@pytest.mark.parametrize(
    ("kind", "value", "canonical"),
    [
        ("BIGINT UNSIGNED", Decimal(2**64 - 1), str(2**64 - 1)),
        ("BIT(1)", True, "1"),
        ("DECIMAL(20,9)", Decimal("0.000000001"), "0.000000001"),
        ("VARCHAR(9)", 'é😀\n"', 'é😀\n"'),
        ("VARBINARY(9)", b"\0\xff", b"\0\xff"),
        ("ENUM('a','b')", "b", "2"),
        ("SET('a','b')", "a,b", "3"),
        ("DATE", date(2024, 2, 29), "2024-02-29"),
        ("DATETIME(3)", datetime(2024, 2, 29, 1, 2, 3, 400_000), "2024-02-29 01:02:03.400"),  # noqa: DTZ001
        ("TIMESTAMP(6)", datetime(2024, 2, 29, 1, 2, 3, 4), "2024-02-29 01:02:03.000004"),  # noqa: DTZ001
        ("TIME(1)", "-01:02:03.4", "-01:02:03.4"),
    ],
)
def test_a_key_of_every_type_is_read_as_it_was(kind: str, value: Any, canonical: Value) -> None:
    create = f"CREATE TABLE t (k {kind} NOT NULL, n INT, v INT, PRIMARY KEY (n, k))"
    (image,) = key_images(plan(create), [(7, value)])
    table = parse_create(create, "s", "escape")
    read = row_reader(table, ReadOptions(source_timezone="UTC"), frozenset(handle_key(table)))([image.encode()])
    assert (read.values[:2], read.bad) == ([[canonical], ["7"]], {})


@pytest.mark.parametrize("keys", [[(None,)], [(1,), (None,)], [("text",)]])
def test_no_row_is_named_if_a_key_cannot_be_written(keys: list[Any]) -> None:
    assert key_images(plan("CREATE TABLE t (id INT PRIMARY KEY)"), keys) == ()


@pytest.mark.parametrize("kind", ["duplicate", "unreadable"])
def test_a_table_with_rows_that_a_merge_cannot_repair_has_no_keys(kind: Any) -> None:
    of = plan("CREATE TABLE t (id INT PRIMARY KEY)")
    found = [Difference((3,), "missing"), Difference((4,), kind)]
    assert with_keys(REPORT, of, found[:1]).keys == (*REPORT.keys, '{"id":"3"}')
    assert with_keys(REPORT, of, found).keys == ()


def test_a_key_that_is_a_flag_of_any_number_does_not_name_its_row() -> None:
    create = "CREATE TABLE t (id TINYINT(1) PRIMARY KEY)"
    assert key_images(plan(create, lake=LakeOptions(tinyint1_as_boolean=True)), [(True,)]) == ()
    assert key_images(plan(create), [(1,)]) == ('{"id":"1"}',)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_a_key_that_a_database_does_not_find_does_not_name_its_row(kind: str) -> None:
    assert key_images(plan(f"CREATE TABLE t (id {kind} PRIMARY KEY)"), [(0.1,)]) == ()


def test_keys_that_would_make_the_state_large_name_no_rows() -> None:
    of = plan("CREATE TABLE t (id VARCHAR(999) PRIMARY KEY)")
    found = [Difference((f"{at:0900}",), "missing") for at in range(1200)]
    report = msgspec.structs.replace(REPORT, keys=())
    assert len(with_keys(report, of, found[:1000]).keys) == 1000
    assert with_keys(report, of, found).keys == ()


def test_a_masked_key_does_not_name_its_row() -> None:
    of = plan("CREATE TABLE t (id INT PRIMARY KEY)")
    masked = msgspec.structs.replace(of, pairs=(msgspec.structs.replace(of.pairs[0], masked=True),))
    assert key_images(masked, [(1,)]) == ()


@pytest.mark.parametrize(
    "change", [{"result": "undecided"}, {"at_least": True}, {"undecided": 1}, {"differences": 3}, {"keys": ()}]
)
def test_a_table_is_read_in_full_unless_every_row_that_differs_is_known(change: dict[str, Any]) -> None:
    assert rows_to_repair(REPORT) == REPORT.keys
    assert rows_to_repair(msgspec.structs.replace(REPORT, **change)) == ()
