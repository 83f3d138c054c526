"""How ``replicate`` ends when something is wrong, and what ``status`` shows afterwards: by the command itself."""

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.spark.lake import write_job
from tests.support.recorded_topics import Line, write_json
from tests.workload import WorkloadConfig, dispatch, generate
from ticdc_spark.cli import main
from ticdc_spark.model import SchemaChange, Watermark
from ticdc_spark.protocols.base import Encoded
from ticdc_spark.protocols.simple.encode import SimpleConfig, encoder

SHOP = WorkloadConfig(seed=3, changes=60, watermark_every=5)
EXCHANGE = "ALTER TABLE `orders` EXCHANGE PARTITION `p0` WITH TABLE `old_orders`"
TS = (SHOP.start_ms + 3_600_000) << 18
"""An hour after the first change."""


def _topic(folder: Path) -> list[Line]:
    """A small shop in one partition."""
    simple = encoder(SimpleConfig())
    return [
        Line(one.topic, one.partition, one.offset, one.timestamp, one.key, one.value)
        for one in dispatch(generate(SHOP), SHOP, simple)
    ]


def _more(lines: list[Line], *encoded: Encoded | None) -> list[Line]:
    """The same with further messages at its end."""
    found = list(lines)
    for one in encoded:
        assert one is not None
        found.append(Line(SHOP.topic, 0, len(found), None, one.key, one.value))
    return found


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def _status(job: Path) -> dict[str, object]:
    shown = _run("status", str(job), "--json")
    assert shown.exit_code == 0, shown.output
    status: dict[str, object] = json.loads(shown.stdout)
    return status


def test_a_ddl_that_cannot_be_replayed_waits_for_the_operator(folder: Path) -> None:
    simple = encoder(SimpleConfig())
    table = next(event.table for event in generate(SHOP) if isinstance(event, SchemaChange) and event.name == "orders")
    assert table is not None
    ddl = SchemaChange(commit_ts=TS, query=EXCHANGE, kind="ALTER", schema="shop", name="orders", table=table)
    lines = _more(_topic(folder), simple.watermark(Watermark(TS).commit_ts), simple.ddl(ddl), simple.watermark(TS + 1))
    source = write_json(folder / "topic" / "shop.jsonl", lines)
    job = write_job(folder, source.parent)
    done = _run("replicate", str(job), "--once")
    assert done.exit_code == 4, done.output
    assert EXCHANGE in done.output
    assert f"commitTs {TS}, topic shop, partition 0, offset {len(lines) - 2}" in done.output
    status = _status(job)
    assert (status["state"], status["running"], status["resolved_ts"]) == ("failed", False, TS - 1)
    assert status["last_error"]["code"] == "UnsupportedDdl"  # type: ignore[index]
    assert status["last_error"]["exit_code"] == 4  # type: ignore[index]
    assert status["ddls_waiting"] == [f"{TS}: {EXCHANGE}"]
    assert "decide" in str(status["next"])

    # The line that it prints, as it stands, is the way on.
    (line,) = (text for text in done.output.splitlines() if "skip-ddl" in text)
    write_job(folder, source.parent, line[line.index("skip-ddl") :])
    done = _run("replicate", str(job), "--once")
    assert done.exit_code == 0, done.output
    status = _status(job)
    conditions = {table["name"]: table["condition"] for table in status["tables"]}  # type: ignore[attr-defined]
    assert [conditions.pop(name) for name in ("shop.orders", "shop.old_orders")] == ["diverged", "diverged"]
    assert set(conditions.values()) == {"clean"}
    assert (status["state"], status["resolved_ts"], status["changes_waiting"]) == ("warning", TS, 0)
    assert status["held_back_by"]["kind"] == "none"  # type: ignore[index]
    shown = _run("status", str(job))
    assert "diverged: since" in shown.output and "it finished, but 2 of" in shown.output


@pytest.mark.parametrize(
    ("damage", "code", "message"),
    [
        # The message cannot be read: it is data, and a person decides what becomes of it.
        (lambda text: _value(text, b'{"type":"INSERT","version":1'), 4, "topic shop, partition 0, offset 30"),
        # The line cannot be read: the recording is broken.
        (lambda text: text[: len(text) // 2], 1, "shop.jsonl, line 31"),
        (lambda text: text.replace('"value": "', '"value": "?'), 1, "shop.jsonl, line 31"),
    ],
    ids=["message", "line", "base64"],
)
def test_what_cannot_be_read_is_reported_with_its_place(
    folder: Path, damage: Callable[[str], str], code: int, message: str
) -> None:
    path = write_json(folder / "topic" / "shop.jsonl", _topic(folder))
    texts = path.read_text().splitlines()
    texts[30] = damage(texts[30])
    path.write_text("\n".join(texts) + "\n")
    job = write_job(folder, path.parent)
    done = _run("replicate", str(job), "--once")
    assert done.exit_code == code, done.output
    (error,) = (line for line in done.output.splitlines() if line[19:].startswith(" error: "))
    assert message in error
    status = _status(job)
    assert status["state"] == "failed"
    assert message in status["last_error"]["message"]  # type: ignore[index]
    assert status["last_error"]["exit_code"] == code  # type: ignore[index]


def _value(text: str, value: bytes) -> str:
    return json.dumps(json.loads(text) | {"value": base64.b64encode(value).decode()})


def test_a_mistake_in_the_job_file_names_key_and_file(tmp_path: Path) -> None:
    job = write_job(tmp_path, tmp_path / "not there", "on-rejekt = 'stop'")
    done = _run("replicate", str(job), "--once")
    assert done.exit_code == 2, done.output
    assert str(job) in done.output and "on-rejekt" in done.output and "on-reject" in done.output
    # Both mistakes are reported at once.
    assert f"there is no file or folder {tmp_path / 'not there'}" in done.output
    assert not (tmp_path / "lake").exists()
