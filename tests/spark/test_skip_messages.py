"""``skip-messages``, ``dead-letters`` and ``resume --clear-diverged`` by the command, through Spark and Iceberg."""

import base64
import json
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.lake import write_job
from tests.spark.test_rejects import AT, NINE, OF_A_ROW, _simple, conditions, record, rows, run, status


def test_one_message_is_left_out_and_listed_and_its_mark_is_cleared(spark: SparkSession, folder: Path) -> None:
    nine, (bad, reason) = _simple(NINE), OF_A_ROW["another type"]
    source = record(folder, b"\xffno message", nine, bad)
    job = write_job(folder, source)
    done = run("replicate", job, "--once")
    assert done.exit_code == 4, done.output
    assert f'skip-messages = ["topic/0/{AT}"]' in done.output
    write_job(folder, source, f'skip-messages = ["topic/0/{AT}", "topic/0/{AT + 1}"]')
    done = run("replicate", job, "--once")
    assert (done.exit_code, reason in done.output) == (4, True), done.output
    (line,) = (text for text in done.output.splitlines() if "skip-messages" in text)
    write_job(folder, source, line[line.index("skip-messages") :])
    done = run("replicate", job, "--once")
    assert done.exit_code == 0, done.output
    assert rows(spark, folder, "t") == rows(spark, folder, "other") == [1, 2]
    found = status(job)
    assert (found["state"], found["rejected"]) == ("warning", 3)
    assert conditions(found) == {"s.t": "diverged", "s.other": "diverged"}

    shown = run("dead-letters", job)
    assert shown.exit_code == 0, shown.output
    assert f"topic/0/{AT}  batch 1" in shown.output and "skip-messages: left out by" in shown.output
    letters = [json.loads(line) for line in run("dead-letters", job, "--json").stdout.splitlines()]
    by_place = {(letter["offset"], letter["stage"]): letter for letter in letters}
    assert base64.b64decode(by_place[AT + 1, "skip-messages"]["value"]) in nine
    assert reason in by_place[AT + 2, "s.t"]["reason"]
    one = run("dead-letters", job, "--show", f"topic/0/{AT + 2}").output
    assert one.count(reason) == 2, one
    assert f"topic/0@{AT + 2}" in one and "rejected" in one

    cleared = run("resume", job, "--all", "--clear-diverged")
    assert cleared.exit_code == 0, cleared.output
    assert cleared.output.count("no longer counts as diverged") == 2
    for _ in range(2):
        assert run("replicate", job, "--once").exit_code == 0
        assert conditions(status(job)) == {"s.t": "unverified", "s.other": "unverified"}
