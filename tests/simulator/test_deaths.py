"""The story of ``tests.spark.deaths`` without Spark: far more patterns of deaths, also with a backup restored."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.simulator.broker import Broker
from tests.simulator.faults import Injector
from tests.simulator.job_lab import JobLab
from tests.simulator.seams import Clock
from tests.simulator.setup import JobSetup
from tests.spark.deaths import END, END_OF_FOUND, FIRST, FOUND, POINTS, SECOND, Death, once_at
from ticdc_spark import failpoints
from ticdc_spark.model import Bootstrap, Change, RowChange, SchemaChange, Watermark
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

SETUP = JobSetup(protocol="simple")
Dies = Callable[[str], bool]


def send(broker: Broker, events: Sequence[Change]) -> None:
    simple = encoder(SimpleConfig())
    for event in events:
        match event:
            case RowChange():
                sent = list(simple.rows([event]))
            case SchemaChange():
                sent = [message for message in (simple.ddl(event),) if message]
            case Watermark(ts):
                sent = [message for message in (simple.watermark(ts),) if message]
            case Bootstrap(known):
                sent = [message for message in (simple.bootstrap(known),) if message]
        for message in sent:
            broker.append(("topic", 0), message.key, message.value, 0)


def work(lab: JobLab) -> None:
    """A process, up to the end of the topic."""
    lab.clock.advance(1)
    process = lab.start(SETUP, 0)
    while process.batch(1000):
        pass
    process.stop()


def run_to_end(lab: JobLab, dies: Dies, after: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    died: list[str] = []

    def point(name: str) -> None:
        if dies(name):
            died.append(name)
            raise Death(name)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "point", point)
        for _ in range(150):
            try:
                work(lab)
            except Death:
                after()
            else:
                return died
    pytest.fail(f"no end: {died}")


def by_chance(seed: int) -> Dies:
    chance = random.Random(seed)
    often, left = chance.choice((0.03, 0.08, 0.2)), iter(range(25))
    return lambda _: chance.random() < often and next(left, None) is not None


def tables_of(lab: JobLab) -> dict[str, list[dict[str, Any]]]:
    return {
        name: sorted((dict(row) for row in table.rows), key=lambda row: int(row["id"]))
        for (_, name), table in lab.lake.tables().items()
    }


EACH, CHANCE = "times at each point", "by chance"
PATTERNS = [*((EACH, times) for times in (1, 2, 3)), *((CHANCE, seed) for seed in range(20))]


@pytest.mark.parametrize(("pattern", "number"), PATTERNS)
@pytest.mark.parametrize("restored", [False, True], ids=["as it is left", "restored"])
@pytest.mark.parametrize("found", [False, True], ids=["created", "found"])
def test_deaths_and_backups_change_nothing(
    found: bool, restored: bool, pattern: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``found``: all in the first batch, of tables that were there before. ``restored``: after each death, lake and
    state are as they were before the first one."""
    broker = Broker(1)
    lab = JobLab(broker, Clock(), Injector())
    send(broker, FOUND if found else FIRST)
    if not found:
        work(lab)
    send(broker, SECOND)
    lake, state = lab.lake.save(), lab.state.save()

    def after() -> None:
        if restored:
            lab.lake.restore(lake)
            lab.state.restore(state)

    died = run_to_end(lab, once_at(POINTS, number) if pattern == EACH else by_chance(number), after, monkeypatch)
    assert pattern == CHANCE or len(died) > 8 * number, died
    assert tables_of(lab) == (END_OF_FOUND if found else END)
