"""The page of types is what the code makes of it, and each line of the page of protocol limits has its test."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.golden.equality import EQUALITY
from tests.golden.exceptions import RULES
from ticdc_spark.protocols.canal_json.types import CODECS as CANAL_JSON
from ticdc_spark.protocols.debezium.types import CODECS as DEBEZIUM
from ticdc_spark.protocols.open.types import CODECS as OPEN

ROOT = Path(__file__).resolve().parents[3]
LIMITS = (ROOT / "docs" / "reference" / "protocol-limits.md").read_text(encoding="utf-8")
_SHOWN = re.compile(r"^\| .+ \| .* \| (.+) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def types_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("types_table", ROOT / "scripts" / "types_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_types_page_is_in_step_with_the_code(types_table: ModuleType) -> None:
    assert types_table.PAGE.read_text(encoding="utf-8") == types_table.page(), "run scripts/types_table.py"


def test_the_types_page_has_every_type_of_the_protocols(types_table: ModuleType) -> None:
    documented = {re.split(r"[( ]", name)[0] for name in types_table.SAMPLES}
    assert documented == (OPEN.keys() | CANAL_JSON.keys() | DEBEZIUM.keys()) - {"var_string"}


def shown() -> list[str]:
    return [cell for cell in _SHOWN.findall(LIMITS) if cell != "Shown by"]


@pytest.mark.parametrize("cell", sorted(set(shown())))
def test_each_limit_has_its_test(cell: str) -> None:
    if cell.startswith("rule: "):
        assert cell.removeprefix("rule: ") in {rule.reason for rule in (*RULES, *EQUALITY)}
        return
    path, _, name = cell.strip("`").partition("::")
    source = (ROOT / path).read_text(encoding="utf-8")
    assert not name or f"def {name}(" in source


def test_every_loss_that_the_vectors_show_is_documented() -> None:
    protocols = ("simple", "open", "canal-json", "debezium")
    lost = {rule.reason for rule in RULES if rule.protocol in protocols and rule.what == "value"}
    assert lost <= {cell.removeprefix("rule: ") for cell in shown()}
