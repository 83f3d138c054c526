"""Tables that are sent under other names: `target-schema` and `target-table`."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from tests.support.changefeed_tables import change, changefeed, dispatch_rule, filters, table
from ticdc_spark.capture.base import CapturedDdl
from ticdc_spark.changefeed.dispatch.router import Router
from ticdc_spark.changefeed.dispatch.table_routes import TableRoutes
from ticdc_spark.changefeed.encoders import encoder
from ticdc_spark.changefeed.route import Placer
from ticdc_spark.errors import UnsupportedDdl, UsageError
from ticdc_spark.model import Envelope, SchemaChange
from ticdc_spark.protocols import decoder

ORDERS = table("orders (id int primary key, v int)", schema="sales")


def routes(*rules: dict[str, object], **settings: object) -> TableRoutes:
    return TableRoutes(changefeed(dispatchers=tuple(dispatch_rule(**rule) for rule in rules), **settings))  # type: ignore[arg-type]


ARCHIVE = {"matcher": ("sales.*",), "target_schema": "archive", "target_table": "{schema}_{table}"}


def test_the_first_rule_with_a_target_decides_and_other_tables_keep_their_names() -> None:
    found = routes({"matcher": ("*.*",), "topic": "x"}, ARCHIVE, {"matcher": ("sales.*",), "target_schema": "late"})
    assert found.target(("sales", "orders")) == ("archive", "sales_orders")
    assert found.target(("other", "orders")) == ("other", "orders")
    assert found.table(ORDERS).name == "sales_orders"
    assert found.source(("archive", "sales_orders")) == ("sales", "orders")


def test_letters_of_the_matcher_count_only_where_the_changefeed_says_so() -> None:
    rule = {"matcher": ("Sales.*",), "target_schema": "{schema}_x"}
    assert routes(rule).target(("SALES", "T")) == ("SALES_x", "T")
    assert routes(rule, case_sensitive=True).target(("SALES", "T")) == ("SALES", "T")


def test_a_database_goes_where_all_of_its_rules_send_it() -> None:
    one = routes(ARCHIVE, {"matcher": ("sales.x",), "target_schema": "archive"})
    assert one.target(("sales", "")) == ("archive", "")
    assert one.target(("other", "")) == ("other", "")
    two = routes(ARCHIVE, {"matcher": ("sales.x",), "target_table": "y"})
    with pytest.raises(UnsupportedDdl, match=r"`sales` are sent to `archive` and `sales`.*filter.event-filters"):
        two.target(("sales", ""))


def test_a_ddl_has_the_new_names_in_its_fields_and_its_sql() -> None:
    renamed = msgspec.structs.replace(ORDERS, name="old")
    found = routes(ARCHIVE).ddl(
        SchemaChange(
            commit_ts=5,
            query="RENAME TABLE orders TO sales.old",
            kind="RENAME",
            schema="sales",
            name="old",
            table=renamed,
            pre_table=ORDERS,
        )
    )
    assert found.query == "RENAME TABLE `archive`.`sales_orders` TO `archive`.`sales_old`"
    assert (found.schema, found.name) == ("archive", "sales_old")
    assert found.table is not None and (found.table.schema, found.table.name) == ("archive", "sales_old")
    assert found.pre_table is not None and found.pre_table.name == "sales_orders"


def test_a_ddl_of_a_database_without_its_name_has_the_new_one_in_its_fields() -> None:
    query = "ALTER DATABASE CHARSET utf8mb4"
    found = routes(ARCHIVE).ddl(SchemaChange(commit_ts=5, query=query, kind="QUERY", schema="sales"))
    assert (found.query, found.schema, found.name) == (query, "archive", "")


def test_names_in_the_sql_are_in_the_letters_of_the_table() -> None:
    rule = {"matcher": ("sales.orders",), "target_table": "{table}_{schema}"}
    query = "ALTER TABLE SALES.Orders ADD COLUMN x INT"
    of = SchemaChange(commit_ts=5, query=query, kind="", schema="sales", name="orders", table=ORDERS, pre_table=ORDERS)
    for found in (routes(rule).ddl(of), routes(rule, case_sensitive=True).ddl(of)):
        assert found.query == "ALTER TABLE `sales`.`orders_sales` ADD COLUMN x INT"
        assert (found.schema, found.name) == ("sales", "orders_sales")


def test_a_ddl_of_a_session_in_another_database_names_the_right_tables() -> None:
    """A binlog has the session's database."""
    every = routes({**ARCHIVE, "matcher": ("*.*",)})
    altered = SchemaChange(
        commit_ts=5,
        query="ALTER TABLE sales.orders ADD COLUMN x INT",
        kind="",
        schema="other",
        name="orders",
        table=ORDERS,
        pre_table=ORDERS,
    )
    found = every.ddl(altered)
    assert found.query == "ALTER TABLE `archive`.`sales_orders` ADD COLUMN x INT"
    assert (found.schema, found.name) == ("archive", "sales_orders")
    moved = msgspec.structs.replace(ORDERS, schema="other", name="moved")
    query = "RENAME TABLE sales.orders TO moved"
    found = every.ddl(msgspec.structs.replace(altered, query=query, name="moved", table=moved))
    assert found.query == "RENAME TABLE `archive`.`sales_orders` TO `archive`.`other_moved`"
    assert (found.schema, found.name) == ("archive", "other_moved")


def test_a_drop_of_a_database_that_shares_its_target_stops_before_it_is_sent() -> None:
    every = dispatch_rule(**{**ARCHIVE, "matcher": ("*.*",)})  # type: ignore[arg-type]
    placer = Placer(changefeed(dispatchers=(every,)), OnePartition())
    drop = SchemaChange(commit_ts=5, query="DROP DATABASE sales", kind="QUERY", schema="sales")
    routed = placer.route(CapturedDdl(commit_ts=5, changes=(drop,), position="x"))
    assert [change.query for _, change in routed.ddls] == ["DROP DATABASE sales"]
    placer.refuse_shared_drop(routed, [])
    others = [table("orders (id int primary key)", schema="other")]
    with pytest.raises(
        UnsupportedDdl, match=r"`archive`, and so is `other`\.`orders`, which this DDL would drop there"
    ):
        placer.refuse_shared_drop(routed, others)


def test_a_view_cannot_be_sent_under_another_name() -> None:
    query = "CREATE VIEW v AS SELECT * FROM orders"
    with pytest.raises(UnsupportedDdl, match=r"target-schema.*ignore-event.*CREATE VIEW v"):
        routes(ARCHIVE).ddl(SchemaChange(commit_ts=5, query=query, kind="CREATE VIEW", schema="sales", name="v"))


def test_two_tables_of_one_new_name_are_refused() -> None:
    rule = dispatch_rule(matcher=("*.*",), target_schema="all")
    router = Router(changefeed(dispatchers=(rule,), filter=filters(rules=("*.*", "!hidden.*"))))
    others = [table("orders (id int primary key)", schema=schema) for schema in ("other", "hidden")]
    with pytest.raises(UsageError, match=r"`sales`.`orders` and `other`.`orders` would both be sent as `all`.`orders`"):
        router.check([ORDERS, *others])
    assert len(router.check([ORDERS, others[1]])) == 2


class OnePartition:
    def partitions(self, topic: str) -> int:
        return 1


def test_a_ddl_that_cannot_be_renamed_stops_before_it_is_sent() -> None:
    placer = Placer(changefeed(dispatchers=(dispatch_rule(**ARCHIVE),)), OnePartition())  # type: ignore[arg-type]
    view = SchemaChange(commit_ts=5, query="CREATE VIEW v AS SELECT 1", kind="CREATE VIEW", schema="sales", name="v")
    with pytest.raises(UnsupportedDdl, match=r"filter\.event-filters"):
        placer.route(CapturedDdl(commit_ts=5, changes=(view,), position="x"))


@pytest.mark.parametrize("protocol", ["simple", "open", "canal-json", "debezium"])
def test_messages_have_the_new_names_and_topics_go_by_the_old_ones(protocol: str) -> None:
    rule = dispatch_rule(**ARCHIVE, topic="{schema}_{table}")  # type: ignore[arg-type]
    feed = changefeed(
        protocol=protocol,
        dispatchers=(rule,),
        encoder={"enable-tidb-extension": "true"} if protocol in ("canal-json", "debezium") else {},
    )
    router = Router(feed)
    of = msgspec.structs.replace(ORDERS, version=5, table_id=1)
    row = change(of, after={"id": "1", "v": "2"}, commit_ts=7)
    assert router.topic("sales", "orders") == "sales_orders"
    (message,) = encoder(feed, None, router.topic, 1 << 20).rows([row])
    (found,) = decoder(protocol).open_message(message.key, message.value)
    assert isinstance(found, Envelope)
    assert (found.schema, found.table) == ("archive", "sales_orders")


def test_avro_registers_under_the_topic_of_the_old_name_with_a_schema_of_the_new_one() -> None:
    registered: dict[str, str] = {}

    class Registry:
        def register(self, subject: str, schema: str) -> int:
            registered[subject] = schema
            return 1

    rule = dispatch_rule(**ARCHIVE, topic="{schema}_{table}")  # type: ignore[arg-type]
    feed = changefeed(protocol="avro", dispatchers=(rule,))
    router = Router(feed)
    list(encoder(feed, Registry(), router.topic, 1 << 20).rows([change(ORDERS, after={"id": "1", "v": "2"})]))
    assert set(registered) == {"sales_orders-key", "sales_orders-value"}
    assert '"name":"sales_orders"' in registered["sales_orders-value"].replace(" ", "")
    assert "archive" in registered["sales_orders-value"]


def test_routes_can_be_pickled() -> None:
    found = routes(ARCHIVE)
    assert found.table(ORDERS).schema == "archive"
    assert pickle.loads(pickle.dumps(found)).table(ORDERS).name == "sales_orders"


def test_a_name_that_another_table_had_as_its_target_is_its_own_again() -> None:
    found = routes({"matcher": ("sales.orders",), "target_table": "late"})
    late = table("late (id int primary key)", schema="sales")
    assert found.table(ORDERS).name == "late"
    assert found.source(("sales", "late")) == ("sales", "orders")
    found.table(late)
    assert found.source(("sales", "late")) == ("sales", "late")
