"""Which alerts of ``monitoring/alerts.yaml`` fire, by what was scraped from a job.

The expressions are parsed as Prometheus does. What they use of PromQL is evaluated here: comparisons with a number,
``or``, ``absent`` and ``increase``. Anything else fails.
"""

import operator
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import promql_parser as promql
import yaml
from prometheus_client.parser import text_string_to_metric_families

RULES = Path(__file__).parents[2] / "monitoring" / "alerts.yaml"
Labels: TypeAlias = frozenset[tuple[str, str]]
Vector: TypeAlias = dict[Labels, float]
Scrape: TypeAlias = Mapping[str, Vector]
"""Series by name."""
_COMPARED: dict[str, Callable[[float, float], bool]] = {"==": operator.eq, ">": operator.gt, "<": operator.lt}


@dataclass(slots=True)
class Scraper:
    """Scrapes one target now and then, as Prometheus does, and keeps what it found."""

    read: Callable[[], str]
    """The page. Raises: OSError"""
    found: list[tuple[float, Scrape]] = field(default_factory=list)
    later: float = 0.0
    """Seconds by which this scraper's clock is ahead."""
    job: str = "ticdc-spark"
    """As in the scrape configuration of the documentation."""
    group: str = ""
    """Evaluate only this group of rules, if named."""

    def scrape(self) -> None:
        """Scrape once. A target that does not answer has no series but ``up``."""
        series: dict[str, Vector] = {}
        try:
            text = self.read()
        except OSError:
            is_up = 0.0
        else:
            is_up = 1.0
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    series.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        series["up"] = {frozenset({("job", self.job)}): is_up}
        self.found.append((time.time() + self.later, series))

    def firing(self) -> set[str]:
        """The alerts that fire now. One with ``for`` must hold in the last two scrapes."""
        return {
            rule["alert"]
            for rule in rules(self.group)
            if all(self._holds(rule, back) for back in ((0, 1) if "for" in rule else (0,)))
        }

    def _holds(self, rule: Mapping[str, Any], back: int) -> bool:
        scrapes = self.found[: len(self.found) - back]
        return bool(scrapes) and bool(_vector(promql.parse(rule["expr"]), scrapes))


def wait(scraper: Scraper, wanted: set[str], seconds: float = 90.0) -> None:
    """Scrape until exactly these alerts fire, for at most so many seconds."""
    end = time.monotonic() + seconds
    while True:
        scraper.scrape()
        if scraper.firing() == wanted:
            return
        assert time.monotonic() < end, f"{scraper.firing()} and not {wanted}"
        time.sleep(0.3)


def page_of(url: str) -> Callable[[], str]:
    """What reads a page over HTTP."""

    def read() -> str:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())

    return read


def rules(of_group: str = "") -> Iterator[Mapping[str, Any]]:
    """The rules of the file, or of one of its groups."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return (rule for group in groups if of_group in ("", group["name"]) for rule in group["rules"])


def _vector(expression: Any, scrapes: list[tuple[float, Scrape]]) -> Vector:
    match expression:
        case promql.ParenExpr():
            return _vector(expression.expr, scrapes)
        case promql.VectorSelector():
            return _selected(expression, scrapes[-1][1])
        case promql.BinaryExpr() if str(expression.op) == "or":
            left = _vector(expression.lhs, scrapes)
            return _vector(expression.rhs, scrapes) | left
        case promql.BinaryExpr() if isinstance(expression.rhs, promql.NumberLiteral):
            compared, bound = _COMPARED[str(expression.op)], expression.rhs.val
            return {at: value for at, value in _vector(expression.lhs, scrapes).items() if compared(value, bound)}
        case promql.Call() if expression.func.name == "absent":
            return {} if _vector(expression.args[0], scrapes) else {frozenset(): 1.0}
        case promql.Call() if expression.func.name == "increase":
            return _increase(expression.args[0], scrapes)
    raise NotImplementedError(f"{expression}")


def _selected(selector: Any, scrape: Scrape) -> Vector:
    wanted = set()
    for one in selector.matchers.matchers:
        assert one.op == promql.MatchOp.Equal, f"{selector}"
        wanted.add((one.name, one.value))
    return {labels: value for labels, value in scrape.get(selector.name, {}).items() if wanted <= labels}


def _increase(selector: Any, scrapes: list[tuple[float, Scrape]]) -> Vector:
    """How much counters have grown; one that falls began again at 0."""
    now, seconds = scrapes[-1][0], selector.range.total_seconds()
    within = [_selected(selector.vector_selector, scrape) for at, scrape in scrapes if now - at <= seconds]
    grown: Vector = {}
    for before, after in pairwise(within):
        for labels, value in after.items():
            if labels in before:
                more = value - before[labels] if value >= before[labels] else value
                grown[labels] = grown.get(labels, 0.0) + more
    return grown
