"""The expressions of the dashboard, parsed as Prometheus does."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest

from tests.support.alert_rules import RULES
from tests.unit.operate.metrics.test_changefeed import KEPT, SENT
from tests.unit.operate.metrics.test_replicate import full
from ticdc_spark.operate.metrics.changefeed import ChangefeedMetrics

DASHBOARD = json.loads((RULES.parent / "dashboard.json").read_text(encoding="utf-8"))
TARGETS = [(panel["title"], one) for panel in DASHBOARD["panels"] for one in panel["targets"]]


def selectors(expression: Any, around: str = "") -> Iterator[tuple[str, str]]:
    """The series that an expression reads, each with the function around it."""
    match expression:
        case promql.VectorSelector():
            yield expression.name, around
        case promql.MatrixSelector():
            yield expression.vector_selector.name, around
        case promql.Call():
            for argument in expression.args:
                yield from selectors(argument, expression.func.name)
        case promql.BinaryExpr():
            yield from selectors(expression.lhs)
            yield from selectors(expression.rhs)
        case promql.AggregateExpr() | promql.ParenExpr():
            yield from selectors(expression.expr)
        case promql.NumberLiteral():
            return
        case _:
            raise NotImplementedError(f"{expression}")


def served(folder: Path) -> dict[str, set[str]]:
    """The labels of every series that a job or a changefeed serves, by its name."""
    feed = ChangefeedMetrics("shop")
    feed(SENT)
    feed.note_kept(KEPT)
    found: dict[str, set[str]] = {}
    for of in (full(folder), feed):
        for sample in (sample for metric in of.collect() for sample in metric.samples):
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize(("title", "target"), TARGETS, ids=[f"{title} {one['refId']}" for title, one in TARGETS])
def test_an_expression_reads_series_that_are_there_and_counters_as_what_they_grow_by(
    title: str, target: dict[str, str], tmp_path: Path
) -> None:
    there, expression = served(tmp_path), promql.parse(target["expr"])
    read = list(selectors(expression))
    assert read, title
    for name, around in read:
        assert name in there
        assert (around in ("rate", "increase")) == name.endswith("_total"), name
    by = re.findall(r"by \(([^)]*)\)", target["expr"])
    labels = {one.strip() for group in by for one in group.split(",")} or {"instance"}.union(
        *(there[n] for n, _ in read)
    )
    assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels


def test_panels_are_side_by_side_and_use_the_variables() -> None:
    cells = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24
    named = {one["name"] for one in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"]))) <= named
