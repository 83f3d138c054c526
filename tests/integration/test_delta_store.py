"""What Python keeps of a Delta sink in an object store: the state of a job, and its dead letters."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from tests.contract.member import letter
from tests.contract.state import StateContract
from tests.support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server
from ticdc_spark.sinks.delta.dead_letters import DeltaDeadLetters
from ticdc_spark.sinks.delta.python_tables import storage_options
from ticdc_spark.sinks.delta.state import DeltaState

NUMBERS = count(1)
LAKE = f"s3a://{BUCKET}/delta"


def _options(server: S3Server) -> dict[str, str]:
    own = {
        "access.key": ACCESS_KEY,
        "secret.key": SECRET_KEY,
        "endpoint": server.url,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
    }
    return storage_options(LAKE, {f"spark.hadoop.fs.s3a.{name}": value for name, value in own.items()})


class TestInAStore(StateContract):
    """Of two commits that follow one version the store takes one."""

    @pytest.fixture
    def opened(self, store: S3Server) -> Callable[[], DeltaState]:
        job = f"job{next(NUMBERS)}"
        return lambda: DeltaState(LAKE, job, _options(store))


def test_dead_letters_of_a_stage_are_replaced_in_a_store(store: S3Server) -> None:
    letters = DeltaDeadLetters(LAKE, "job", _options(store))
    assert letters.read() == []
    for reason in ("first", "second"):
        letters.keep(1, "decode", [letter(1, reason), letter(2, reason)], 0.0)
        letters.keep(1, "it's.t", [letter(3, reason)], 0.0)
    letters.keep(1, "decode", [letter(2, "third")], 0.0)
    assert [(one["offset"], one["reason"]) for one in letters.read()] == [(1, "second"), (2, "third"), (3, "second")]
