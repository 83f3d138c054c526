"""TiCDC's own RECOVER TABLE and FLASHBACK TABLE through the job."""

from __future__ import annotations

import pytest

from tests.support.shop import Shop
from tests.support.vectors import case, needs_vectors

pytestmark = needs_vectors


@pytest.mark.parametrize(
    ("config", "protocol"), [("simple_json", "simple"), ("open", "open"), ("canal_json_ext", "canal-json")]
)
@pytest.mark.parametrize("rows", [40, 1000])
def test_a_table_that_was_recovered_and_renamed_by_flashback_has_its_rows(
    config: str, protocol: str, rows: int
) -> None:
    """Debezium does not send them. The database of the vectors keeps no dropped rows: its own end lacks them."""
    shop = Shop(protocol, tables=("ddl1.a*", "ddl2.a*"), keep_dropped=600.0)
    for sent in case("tiflow", "ddl_all").config(config).messages:
        shop.broker.append(("cdc", 0), sent.message.key, sent.message.value, 1)
    shop.run(rows)
    inserted = [(1, 100), (2, 200), (3, 300), (4, 400), (77, 77), (78, 78)]
    assert shop.rows("a_flash", "ddl1") == inserted
    assert shop.status("a_flash", "ddl1").condition == "clean"
    assert shop.rows("a_back", "ddl1") is None
