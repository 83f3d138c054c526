"""What the package ships for the demo is what ``scripts/demo_topic.py`` records."""

from operator import attrgetter

from scripts.demo_topic import record

from ticdc_spark.cli.demo import RECORDED, recorded_tables
from ticdc_spark.topics.messages import recorded_messages


def test_the_shipped_topic_and_tables_are_those_of_the_script() -> None:
    messages, tables = record()
    place = attrgetter("topic", "partition", "offset")
    assert sorted(recorded_messages(RECORDED / "topic"), key=place) == sorted(messages, key=place)
    assert recorded_tables() == tables


def test_the_shipped_files_are_small() -> None:
    assert sum(file.stat().st_size for file in RECORDED.rglob("*.parquet")) < 300_000
