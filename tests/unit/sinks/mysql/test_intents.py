"""What becomes of a comment that the server does not take."""

from __future__ import annotations

import pymysql
import pytest

from ticdc_spark.sinks.mysql import intents


class Refusing:
    """A cursor of a server that answers with an error."""

    def __init__(self, code: int) -> None:
        self.code = code

    def execute(self, _statement: str) -> None:
        raise pymysql.err.OperationalError(self.code, "no")


@pytest.mark.parametrize("code", [1205, 1213, 1317, 2006, 2013])
def test_a_comment_whose_fault_passes_by_itself_is_tried_again_with_its_ddl(code: int) -> None:
    with pytest.raises(pymysql.err.OperationalError):
        intents._write_comment(Refusing(code), "ALTER TABLE t MODIFY v INT COMMENT 'x'")


def test_a_comment_that_the_server_refuses_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    intents._write_comment(Refusing(1629), "ALTER TABLE t MODIFY v INT COMMENT 'x'")
    assert "the target refuses a comment: no: ALTER TABLE t" in caplog.text
