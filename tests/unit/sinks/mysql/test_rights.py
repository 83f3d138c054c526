"""A user without rights is told the statement that gives them."""

from __future__ import annotations

import pytest

from ticdc_spark.clients.mysql import driver
from ticdc_spark.errors import SinkFault, UsageError
from ticdc_spark.sinks.mysql.client import faults
from ticdc_spark.sinks.mysql.rights import grants_of, missing_rights

USER = "TO `copy`@`%`"
ALL = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, INDEX, ALTER"


@pytest.mark.parametrize(
    ("grants", "missing"),
    [
        ([f"GRANT ALL PRIVILEGES ON *.* {USER} WITH GRANT OPTION"], []),
        ([f"GRANT {ALL} ON *.* {USER}"], []),
        ([f"GRANT USAGE ON *.* {USER} IDENTIFIED BY PASSWORD '*95'"], ["shop", "copy_a"]),
        ([f"GRANT USAGE ON *.* {USER}", f"GRANT ALL PRIVILEGES ON `shop`.* {USER}"], ["copy_a"]),
        ([f"GRANT {ALL} ON `Shop`.* {USER}", f"GRANT ALL PRIVILEGES ON `copy\\_%`.* {USER}"], []),
        ([f"GRANT {ALL} ON shop.* {USER}", f"GRANT ALL PRIVILEGES ON `copy\\_b`.* {USER}"], ["copy_a"]),
        ([f"GRANT SELECT, CREATE ON *.* {USER}", f"GRANT {ALL} ON `copy_a`.* {USER}"], ["shop"]),
        (
            [
                f"GRANT SELECT, INSERT ON *.* {USER}",
                f"GRANT UPDATE, DELETE, CREATE, DROP, INDEX, ALTER ON `%`.* {USER}",
            ],
            [],
        ),
        ([f"GRANT ALL PRIVILEGES ON `shop`.`t` {USER}", f"GRANT ALL PRIVILEGES ON `copy_a`.* {USER}"], ["shop"]),
        ([f"GRANT USAGE ON *.* {USER}", f"GRANT `writers` {USER}"], []),
    ],
)
def test_databases_that_a_user_may_not_write_are_found_by_the_grants(grants: list[str], missing: list[str]) -> None:
    assert missing_rights(grants, ["shop", "copy_a"]) == missing


@pytest.mark.parametrize(
    ("code", "said", "cure"),
    [
        (1044, "Access denied for user 'copy'@'%' to database 'shop'", grants_of(["shop"], "'copy'@HOST")),
        (
            1142,
            "INSERT command denied to user 'copy'@'localhost' for table `shop`.`t`",
            grants_of(["shop"], "'copy'@HOST"),
        ),
        (1142, "INSERT command denied to user 'copy'@'localhost' for table 't'", "on the copied databases"),
    ],
)
def test_a_denied_right_is_nothing_that_another_start_cures(code: int, said: str, cure: str) -> None:
    with pytest.raises(UsageError, match="db:3306: ") as raised, faults("db:3306"):
        raise driver().err.OperationalError(code, said)
    assert f"{said}. Cure: " in str(raised.value) and cure in str(raised.value)
    with pytest.raises(SinkFault), faults("db:3306"):
        raise driver().err.OperationalError(2013, "Lost connection to MySQL server during query")
