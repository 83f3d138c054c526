"""What ``changefeed`` logs of its progress."""

from __future__ import annotations

import msgspec

from ticdc_spark.changefeed.report import Report
from ticdc_spark.cli.changefeed import line
from ticdc_spark.mysql.tso_time import seconds, utc

TSO = 462354011751161858


def test_a_report_is_one_short_line_that_ends_with_what_is_in_the_way() -> None:
    now = seconds(TSO) + 71
    sent = Report(rows=12_345_678, messages=1, waiting=0, rows_per_second=903.4, saved=TSO)
    assert line(sent, now) == f"12,345,678 rows sent, 903 rows/s, lag 1 min 11 s, up to {utc(TSO)}"
    reads = msgspec.structs.replace(sent, waiting=1_200, reading="shop.orders, range 3 of 10")
    assert line(reads, now) == (
        "12,345,678 rows sent, 903 rows/s, 1,200 not acknowledged, lag 1 min 11 s, reads shop.orders, range 3 of 10"
    )
    out = msgspec.structs.replace(reads, outage="it acknowledges nothing")
    assert line(out, now).endswith("lag 1 min 11 s, waits for Kafka: it acknowledges nothing")
    assert line(Report(rows=0, messages=0, waiting=0, rows_per_second=0.0, saved=0), now) == "0 rows sent, 0 rows/s"
