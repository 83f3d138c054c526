"""The report: what it keeps of keys, what it shows of values, and what it does not show."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from tests.unit.verify.tables import plan
from ticdc_spark.config import secrets
from ticdc_spark.errors import UsageError
from ticdc_spark.verify.cells import Buckets, ranges_of
from ticdc_spark.verify.compare import Difference
from ticdc_spark.verify.report import Kept, Report, load, read_key, save, selection_of, shown, write_keys

KEY = (1, Decimal("1.50"), "é", b"\0\xff", date(1, 2, 3), datetime(2024, 1, 2, 3, 4, 5, 6), True, None, 0.1)  # noqa: DTZ001


@pytest.fixture(autouse=True)
def no_secret_is_left() -> Iterator[None]:
    yield
    secrets.forget()


def test_keys_of_every_type_come_back_from_the_file(tmp_path: Path) -> None:
    kept = Kept(plan="p", suspects=write_keys([KEY]))
    save(tmp_path / "report.json", Report(job="j", started="", kept={"s.t": kept}))
    found = load(tmp_path / "report.json")
    assert found is not None
    assert [read_key(one) for one in found.kept["s.t"].suspects] == [KEY]
    assert (tmp_path / "report.json").stat().st_mode & 0o777 == 0o600


def test_parts_come_back_from_the_file() -> None:
    for parts in (ranges_of([(1, b"a"), (2, b"")]), ranges_of([]), Buckets(3, (0, 1, 2))):
        bounds, buckets = selection_of(parts)
        assert Kept(plan="", bounds=bounds, buckets=buckets).selection == parts


def test_a_file_that_is_no_report_is_refused(tmp_path: Path) -> None:
    assert load(tmp_path / "none.json") is None
    (tmp_path / "other.json").write_text('{"a": 1}')
    with pytest.raises(UsageError, match="is no report of this version"):
        load(tmp_path / "other.json")


def test_a_difference_shows_no_masked_value_and_no_secret() -> None:
    of = plan("CREATE TABLE t (id INT PRIMARY KEY, m VARCHAR(99), s VARCHAR(99), b BLOB, l TEXT)")
    masked = msgspec.structs.replace(of.pairs[1], masked=True)
    of = msgspec.structs.replace(of, pairs=(of.pairs[0], masked, *of.pairs[2:]))
    secrets.remember("a long password")
    row = (7, "hidden", "has a long password", b"\xff", "x" * 101, None)
    found = shown(of, Difference((7,), "changed", (1, 2, 3, 4), row, (7, None, None, None, None, "why")))
    text = msgspec.json.encode(found).decode()
    assert "hidden" not in text and "long password" not in text
    assert (found.key, found.columns["m"].source, found.columns["b"].source) == ({"id": "7"}, "(masked)", "0xff")
    assert (found.columns["l"].source, found.why) == ("x" * 100 + "… (101 characters)", "why")
