"""DDL by its SQL alone: names that the rows of Avro have in another form."""

from __future__ import annotations

import pytest

from ticdc_spark.model import SchemaChange
from ticdc_spark.replicate.plan.ddl_actions import Refused, action
from ticdc_spark.replicate.schemas.sql_ddl import SchemaRules, with_schemas
from ticdc_spark.replicate.state.progress import QueuedDdl


@pytest.mark.parametrize(
    ("query", "schema", "named_otherwise"),
    [
        ("CREATE TABLE `t` (`id` INT PRIMARY KEY)", "s", False),
        ("CREATE TABLE `t` (`a b` INT PRIMARY KEY)", "s", True),
        ("CREATE TABLE `a.b` (`id` INT PRIMARY KEY)", "s", True),
        ("CREATE TABLE `t` (`id` INT PRIMARY KEY)", "a db", True),
        ("DROP TABLE `s`.`9lives`", "s", True),
        ("DROP TABLE `s`.`t`", "s", False),
        ("RENAME TABLE `s`.`t` TO `s`.`t-2`", "s", True),
        ("CREATE DATABASE `a db`", "a db", True),
    ],
)
def test_names_that_avro_does_not_allow(query: str, schema: str, named_otherwise: bool) -> None:
    change = SchemaChange(commit_ts=5, query=query, kind="3", schema=schema, name="")
    queued = QueuedDdl(change=change, topic="a", partition=0, offset=0)
    (found,) = with_schemas([queued], {}, [], SchemaRules(sanitised=True))
    refused = action(found.change)
    assert (isinstance(refused, Refused) and "Avro" in refused.why) == named_otherwise
    (plain,) = with_schemas([queued], {}, [])
    assert plain.change.kind == "3"
