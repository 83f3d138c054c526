"""Unit tests never start Spark."""

import pytest

from ticdc_spark.replicate.run import open as opening


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job starts Spark while it opens its state, so also one that stops before it needs Spark."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a unit test started Spark")

    monkeypatch.setattr(opening, "open_session", refused)
