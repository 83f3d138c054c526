"""The MySQL sink passes the contract of sinks, on a real MariaDB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.contract.appends import AppendsContract
from tests.contract.capabilities import CapabilitiesContract, DeletesContract, ReadsContract, TypesContract
from tests.contract.changes import ChangesContract
from tests.contract.columns import ColumnsContract
from tests.contract.counts import CountsContract
from tests.contract.fences import FenceContract
from tests.contract.loads import LoadsContract
from tests.contract.member import Member
from tests.contract.moves import MovesContract
from tests.contract.newest import NewestContract
from tests.contract.others import StampsContract
from tests.contract.state import StateContract
from tests.contract.tables import TablesContract
from tests.contract.topics import TopicContract
from tests.contract.typed import TypedContract
from tests.integration.mysql_member import NUMBERS, mysql_member, sql_name
from tests.support.mariadb_server import Server
from ticdc_spark.clients.mysql import connection_options
from ticdc_spark.sinks.base import ColumnChanges
from ticdc_spark.sinks.mysql.client import Client
from ticdc_spark.sinks.mysql.sink import MysqlSink
from ticdc_spark.sinks.mysql.state import MysqlState
from ticdc_spark.sinks.mysql.types import MysqlTypes
from ticdc_spark.sinks.state import StateStore


class TestMysqlSink(
    TablesContract,
    ColumnsContract,
    ChangesContract,
    CountsContract,
    AppendsContract,
    LoadsContract,
    MovesContract,
    NewestContract,
    StampsContract,
    FenceContract,
    TopicContract,
    TypedContract,
    CapabilitiesContract,
    ReadsContract,
    TypesContract,
    DeletesContract,
):
    """What a job does to tables."""

    @pytest.fixture
    def member(self, target: Server, spark: SparkSession) -> Member:
        return mysql_member(target, spark)


class TestMysqlComments:
    """The comments of columns of MySQL, which each MODIFY repeats."""

    @pytest.fixture
    def member(self, target: Server) -> Member:
        return mysql_member(target, None)

    def write(self, member: Member, *comments: tuple[str, str], **changes: Any) -> dict[str, str]:
        member.sink.change_columns(member.name, ColumnChanges(comments=comments, **changes), member.stamp(30))
        return member.others.comments(member.name)

    def test_a_comment_that_does_not_fit_is_cut_and_never_refused(self, member: Member, target: Server) -> None:
        ((before,),) = target.execute("SELECT @@GLOBAL.sql_mode")
        target.execute("SET GLOBAL sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'")
        try:
            member.create()
        finally:
            target.execute(f"SET GLOBAL sql_mode = '{before}'")
        assert self.write(member, ("v", "é" * 1025)) == {"v": "é" * 1024}
        long = "\0🙂'\\\" %s\t\r\n\x1a" * 200
        stored = long.replace("\0", "").replace("🙂", "?")[:1024]
        assert self.write(member, ("v", long), ("w", "\\")) == {"v": stored, "w": "\\"}
        assert self.write(member, ("v", "gone"), ("x", "\\'"), drop=("v",), rename=(("w", "x"),)) == {"x": "\\'"}

    def test_another_key_and_rows_without_a_column_keep_the_comments(self, member: Member) -> None:
        member.create()
        self.write(member, ("id", "the key"), ("v", "a value"))
        sink = cast(MysqlSink, member.sink)
        keyed = [msgspec.structs.replace(one, key=one.name == "v") for one in member.columns]
        assert sink.tables.with_key(member.name, keyed)
        sink.tables.with_nullable(member.name, member.columns[1:])
        assert member.others.comments(member.name) == {"id": "the key", "v": "a value"}

    def test_what_a_person_gave_to_a_column_stays(self, member: Member, target: Server) -> None:
        member.create()
        name = sql_name(member.name)
        options = "ADD j json NULL COMMENT 'checked', ADD e enum('a\\\\b', 'it''s') CHARACTER SET latin1 NOT NULL"
        target.execute(f"ALTER TABLE {name} MODIFY v bigint NOT NULL DEFAULT 7 COMMENT 'seven', {options}")

        def shown() -> str:
            return str(target.execute(f"SHOW CREATE TABLE {name}")[0][1]).rpartition(" COMMENT=")[0]

        before = shown()
        found = self.write(member, ("v", "new"), ("j", "new"), ("e", "a member"), ("id", "the key"))
        # a MariaDB's JSON is a text with a CHECK, which a change of the comment would lose
        wanted = "checked" if target.is_mariadb else "new"
        assert found == {"v": "seven", "j": wanted, "e": "a member", "id": "the key"}
        assert (
            shown()
            .replace(f" COMMENT '{wanted}'", " COMMENT 'checked'")
            .replace(" COMMENT 'a member'", "")
            .replace(" COMMENT 'the key'", "")
            == before
        )

    def test_a_refused_comment_does_not_fail_the_ddl(self, member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
        member.create()
        monkeypatch.setattr(MysqlTypes, "comment", lambda _, text: text)
        assert self.write(member, ("v", "x" * 1025), ("z", "y"), rename=(("w", "z"),)) == {"z": "y"}


class TestMysqlState(StateContract):
    """The state of a job beside its tables."""

    @pytest.fixture
    def opened(self, target: Server) -> Iterator[Callable[[], StateStore]]:
        job, made = f"state{next(NUMBERS)}", []

        def open_one() -> StateStore:
            made.append(MysqlState(Client(connection_options(target.uri)), job))
            return made[-1]

        yield open_one
        for one in made:
            one.close()
