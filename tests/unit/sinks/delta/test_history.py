"""What the log of a Delta table says of its commits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ticdc_spark.sinks.base import Stamp
from ticdc_spark.sinks.delta.history import Entry, History, read_entry, read_text, text_of
from ticdc_spark.sinks.delta.names import folder_of
from ticdc_spark.sinks.delta.types import DeltaTypes
from ticdc_spark.spark.types import LakeType

STAMP = Stamp("job", (20, 2), 19, '{"a": "${env:HOME} \u65e5"}', 18)


def commit(text: str = "", operation: str = "WRITE", *, changes: bool = True, **given: Any) -> str:
    info = {"timestamp": 7, "operation": operation, "operationParameters": given, "userMetadata": text}
    lines = [{"commitInfo": info}, {"add": {"path": "x", "dataChange": changes}}]
    return "\n".join(msgspec.json.encode(line).decode() for line in lines)


class Log(History):
    """A log by the text of its commits; ``None``: one that was cleaned up."""

    def __init__(self, *commits: str | None, properties: dict[str, str] | None = None) -> None:
        self._commits, self._properties, self.version = commits, properties or {}, len(commits) - 1
        self._lake, self._snapshot = self, self  # type: ignore[assignment]

    def metadata(self, _: object) -> dict[str, Any]:
        return {"configuration": self._properties}

    def entry(self, version: int) -> Entry | None:
        held = self._commits[version]
        return None if held is None else read_entry(version, held)


def whole(mark: int, **more: Any) -> str:
    stamp = msgspec.structs.replace(STAMP, mark=(mark, 2))
    return commit(msgspec.structs.replace(text_of(stamp), whole=True, **more).json)


def merged(mark: int) -> str:
    return commit(text_of(msgspec.structs.replace(STAMP, mark=(mark, 2), about="")).json, "MERGE")


def test_a_text_comes_back_and_has_no_variable() -> None:
    text = text_of(STAMP)
    assert "$" not in text.json
    held = read_text(text.json)
    assert held is not None and held.stamp == STAMP
    assert read_text("somebody") is None


def test_a_commit_by_spark_is_recognised_before_the_one_that_follows_it() -> None:
    found = Log(whole(10), merged(20)).found()
    assert found.stamp == msgspec.structs.replace(STAMP, mark=(20, 2))
    assert (found.changed_by, found.rolled_back, found.snapshot) == ("", False, 1)


@pytest.mark.parametrize(
    ("other", "changed_by"),
    [
        (commit(operation="UPDATE"), "UPDATE"),
        (commit(operation="OPTIMIZE", changes=False), ""),
        (commit(operation="RESTORE", timestamp="2026-01-01"), "RESTORE"),
    ],
)
def test_what_others_did_since_is_told(other: str, changed_by: str) -> None:
    assert Log(whole(10), other).found().changed_by == changed_by
    assert Log(whole(10), other, merged(20)).found().changed_by == changed_by
    assert Log(whole(10), other, whole(20)).found().changed_by == ""


def test_a_restore_is_one_and_has_the_stamp_and_columns_of_then() -> None:
    first = msgspec.structs.replace(text_of(msgspec.structs.replace(STAMP, about="old")), whole=True).json
    log = Log(commit(first), whole(30), commit(operation="RESTORE", version=0))
    found = log.found()
    assert found.stamp == msgspec.structs.replace(STAMP, about="old")
    assert (found.rolled_back, found.furthest, found.changed_by) == (True, None, "")
    again = Log(
        commit(first), whole(30), commit(operation="RESTORE", version=0), commit(operation="RESTORE", version=1)
    )
    assert (again.found().rolled_back, again.found().stamp) == (False, msgspec.structs.replace(STAMP, mark=(30, 2)))


def test_a_restore_to_a_commit_that_was_cleaned_up_is_one() -> None:
    upkeep = commit(operation="OPTIMIZE", changes=False)
    found = Log(None, whole(30), commit(operation="RESTORE", version=0), upkeep).found()
    assert found.stamp is not None
    assert (found.rolled_back, found.stamp.mark, found.changed_by) == (True, (0, 0), "")
    newer = Log(None, None, commit(operation="RESTORE", version=1), whole(30), upkeep).found()
    assert newer.stamp is not None
    assert (newer.rolled_back, newer.stamp.mark) == (False, (30, 2))


def test_the_property_has_the_stamp_where_the_log_was_cleaned_up() -> None:
    properties = {"ticdc.stamp": msgspec.structs.replace(text_of(STAMP), whole=True).json, "ticdc.version": "1"}
    found = Log(None, None, commit(operation="OPTIMIZE", changes=False), properties=properties).found()
    assert (found.stamp, found.changed_by, found.rolled_back) == (STAMP, "", False)
    found = Log(None, None, None, commit(operation="OPTIMIZE", changes=False), properties=properties).found()
    assert (found.stamp, found.changed_by) == (STAMP, "snapshots that were expired")


def test_a_read_that_was_brought_in_is_told_by_the_newest_whole_commit() -> None:
    assert Log(whole(10), whole(20, load="one")).loaded() == "one"
    assert Log(whole(10), whole(20, load="one"), merged(30)).loaded() == "one"
    assert Log(whole(20, load="one"), whole(30)).loaded() == ""


def test_folders_have_names_that_any_store_holds() -> None:
    names = [folder_of(name) for name in ("orders", "a.b", "a:b", "日", "u`v", "a b")]
    assert names == ["orders", "a_x2e_b", "a_x3a_b", "_x65e5_", "u_x60_v", "a b"]


def test_types_are_widened_only_where_readers_may_know_it() -> None:
    assert DeltaTypes(widens=True).promotes("int", "bigint")
    assert not DeltaTypes(widens=True).promotes("int", "string")
    assert not DeltaTypes(widens=False).promotes(LakeType("int", "int32").name, "bigint")
