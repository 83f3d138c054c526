"""The order of what a changefeed sends: random stories with deaths, and mutations that they must find."""

import inspect
from types import ModuleType
from typing import Any

import pytest

from tests.changefeed.consumer import Consumer
from tests.changefeed.world import World, Wrong
from ticdc_spark.changefeed import sequence

STORIES = 300
BUDGET = 300
"""Stories within which a mutation must be found."""


def story(seed: int, sequencer: type[Any]) -> None:
    world = World(seed, sequencer)
    world.run()
    for reading in range(2):
        consumer = Consumer(world)
        consumer.read(seed * 2 + reading)
        if consumer.tables != world.history.truth:
            raise Wrong(f"the tables are {consumer.tables}, and should be {world.history.truth}")


@pytest.mark.parametrize("first", range(0, STORIES, 50))
def test_what_is_sent_is_the_truth_whatever_dies(first: int) -> None:
    for seed in range(first, first + 50):
        try:
            story(seed, sequence.Sequencer)
        except Wrong as error:
            raise AssertionError(f"story {seed}: {error}") from error


MUTATIONS = {
    "a watermark above what is stored": ("= self._saved.commit_ts + 1", "= self._state.commit_ts + 1"),
    "a watermark that takes in the next commitTs": ("= self._saved.commit_ts + 1", "= self._saved.commit_ts + 3"),
    "a DDL for one partition": (
        "                if self._cadence.ddl_to_first_partition:\n",
        "                if True:\n",
    ),
    "a DDL that does not wait for rows": ("if routed is None or self._open:", "if routed is None:"),
    "rows that do not wait for a DDL": ("            self._ddl_sent = True\n            return\n", ""),
    "progress before acknowledgement": ("self._points[0][0] < first", "self._points[0][0] <= self._tickets"),
    "progress past a DDL that is not sent": (
        "                self._ddl = routed\n",
        "                self._ddl = routed\n                self._follow(captured)\n",
    ),
    "a table that changed without its schema": (
        "if known is None or (known.table is not table and known.table != table):",
        "if known is None:",
    ),
    "rows before their schema": (
        "self._announce(out, place[0], changes, now)\n",
        "late: list[Action] = []\n                self._announce(late, place[0], changes, now)\n",
    ),
    "watermarks for the default topic only": (
        "dict.fromkeys((*self._layout.topics(self._state.tables), *sorted(self._extra)))",
        "['main']",
    ),
    "watermarks for the topics of yesterday": (
        "            self._places = None\n            self._known",
        "            self._known",
    ),
    "no last watermark": ("            and not self._owes_watermark()\n", ""),
    "no watermark while nothing comes": ("self._next_tick + self._cadence.interval, now)", "now + 30, now)"),
    "the clock's time is not stored first": ("held = self._saved.commit_ts < self._hold", "held = False"),
    "a batch that does not wait for what is before it": (
        "        if routed is None or self._open:\n            return  # messages before it, its BOOTSTRAPs",
        "        if routed is None:\n            return  # messages before it, its BOOTSTRAPs",
    ),
    "rows that do not wait for a batch": (
        "busy = self._ddl is not None or self._batch is not None\n        return not busy",
        "busy = self._ddl is not None\n        return not busy",
    ),
    "a batch before the schemas of its tables": ("            if self._open:\n                return\n", ""),
    "a batch without the schemas of its tables": (
        "                self._announce_batch(out, announce, now)\n",
        "                pass\n",
    ),
    "progress past a batch that is not sent": (
        "            self._batch, self._batch_stage = routed, 0\n",
        "            self._batch, self._batch_stage = routed, 0\n            self._follow(captured)\n",
    ),
    "rows in another order": ("rows.append(change)", "rows.insert(0, change)"),
    "an end before progress is stored": ("            and _same(self._saved, self._state)\n", ""),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_found(name: str) -> None:
    old, new = MUTATIONS[name]
    text = inspect.getsource(sequence)
    assert old in text, "the mutation follows the words that it changes"
    module = ModuleType("mutated")
    exec(compile(text.replace(old, new), "mutated", "exec"), module.__dict__)
    for seed in range(BUDGET):
        try:
            story(seed, module.Sequencer)
        except Wrong:
            return
        except (AssertionError, KeyError, AttributeError):
            return  # it breaks, which shows too
    pytest.fail(f"{BUDGET} stories did not find it")
