"""The page of ``verify`` has every option, commands that parse, and output as it is printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from ticdc_spark.cli.verify import command, lines, summary
from ticdc_spark.verify.report import Found, Report, TableReport, Value

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "verify.md").read_text(encoding="utf-8")


def test_every_command_of_the_page_is_one() -> None:
    written = re.findall(r"^(?:\$ )?ticdc-spark verify (.*?)(?: +#.*)?$", PAGE, re.MULTILINE)
    assert len(written) >= 5
    for words in written:
        found = command.make_context("verify", shlex.split(words)).params
        assert (found["job_file"] == Path("shop.toml")) != (found["between"] is not None)


def test_every_option_is_on_the_page() -> None:
    options = [one.opts[0] for one in command.params if isinstance(one, click.Option)]
    assert [one for one in options if f"`{one}" not in PAGE and f" {one} " not in PAGE] == []


def test_tables_are_printed_as_the_page_shows_them() -> None:
    customers = TableReport(
        table="shop.customers", target="shop.customers", result="equal", condition="clean", rows_source=2
    )
    found = (
        Found(kind="missing", key={"id": "17"}),
        Found(kind="changed", key={"id": "4711"}, columns={"price": Value("9.50", "9.05")}),
    )
    orders = TableReport(
        table="shop.orders", target="shop.orders", result="different", condition="clean", differences=2, found=found
    )
    shown = [*lines(customers), *lines(orders)]
    assert "\n".join(["$ ticdc-spark verify shop.toml", *shown]) in PAGE


def test_a_condition_and_what_was_not_compared_are_named() -> None:
    report = TableReport(
        table="s.t",
        target="s.t",
        result="undecided",
        condition="diverged",
        undecided=3,
        why="the job does not run",
        columns_not_compared={"c": "masked with a null"},
    )
    assert [*lines(report)] == [
        "s.t  undecided     3 rows: the job does not run  (diverged)",
        "    column c not compared: masked with a null",
    ]


def test_a_table_that_lacks_a_column_shows_the_cure_and_undecided_tables_are_counted() -> None:
    different = TableReport(
        table="s.t", target="s.t", result="different", condition="diverged", why="the target has no column `c`"
    )
    others = [
        TableReport(table=f"s.{result}", target="s.t", result=result, condition="")
        for result in ("equal", "undecided", "undecided", "not compared")
    ]
    assert [*lines(different)] == ["s.t  different     the target has no column `c`  (diverged)"]
    report = Report(job="shop", started="", tables=(different, *others))
    assert summary(report) == "4 tables compared, 1 with differences, 2 undecided"
