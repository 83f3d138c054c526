"""No code names a protocol outside its package, the list of protocols and the command line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ticdc_spark.protocols import ALIASES, PROTOCOLS

SOURCES = Path(__file__).resolve().parents[3] / "src" / "ticdc_spark"
LISTS = ("protocols/__init__.py", "cli/")
"""Where protocols are listed, and where people name them."""
NAMES = {*PROTOCOLS, *ALIASES}
PACKAGES = {type(protocol).__module__.rpartition(".")[2] for protocol in PROTOCOLS.values()}
MODULE = re.compile(rf"(?:^|\.)protocols\.({'|'.join(sorted(PACKAGES))})(?:\.|$)")
MADE_OF = {"debezium_avro": {"avro", "debezium"}}
"""A protocol whose parts are those of others."""


def imported(node: ast.AST) -> list[str]:
    """The modules that a statement may import."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def docstrings(tree: ast.AST) -> set[int]:
    """What stands as a statement of its own."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def named(source: str, own: set[str] | None = None) -> Iterator[str]:
    """What names a protocol: a string that is its name, and an import of its package but those in ``own``.

    ``own``: the packages that a protocol's own module may import; it may have names in its messages, too.
    """
    tree = ast.parse(source)
    prose = docstrings(tree)
    for node in ast.walk(tree):
        texts = imported(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            if own is None and node.value in NAMES:
                yield f"{node.lineno}: {node.value!r}"
            texts = [node.value]
        found = {match.group(1) for text in texts if (match := MODULE.search(text))}
        for package in sorted(found - (own or set())):
            yield f"{node.lineno}: protocols.{package}"


def own_packages(path: str) -> set[str] | None:
    """The packages that a module may import; ``None`` outside all of them."""
    room, _, rest = path.partition("/")
    package = rest.partition("/")[0]
    return {package} | MADE_OF.get(package, set()) if room == "protocols" and package in PACKAGES else None


def test_every_protocol_has_its_package() -> None:
    assert {path.parent.name for path in SOURCES.glob("protocols/*/__init__.py")} == {*PACKAGES, "shared"}
    assert len(PACKAGES) == len(PROTOCOLS)


def test_no_code_names_a_protocol_outside_its_package() -> None:
    paths = [path.relative_to(SOURCES).as_posix() for path in sorted(SOURCES.rglob("*.py"))]
    found = [
        f"{path}:{line}"
        for path in paths
        if not path.startswith(LISTS)
        for line in named((SOURCES / path).read_text(encoding="utf-8"), own_packages(path))
    ]
    assert len(paths) > 100
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'if protocol == "avro":\n    pass',
        'LOCAL = frozenset({"canal-json"})',
        'match name:\n    case "open-protocol":\n        pass',
        "from ticdc_spark.protocols.simple.decode import DECODER",
        "from ticdc_spark.protocols import debezium_avro",
        "from ticdc_spark.protocols import decoder, debezium",
        "import ticdc_spark.protocols.open",
        "def f():\n    from ticdc_spark.protocols.debezium import blocks",
        'import_module("ticdc_spark.protocols.canal_json.decode")',
        'import_module(f"ticdc_spark.protocols.avro.{name}")',
    ],
)
def test_the_search_finds(source: str) -> None:
    assert len({*named(source)}) == 1


@pytest.mark.parametrize(
    "source",
    [
        '"""Of avro."""',
        "open(path)",
        "from ticdc_spark.protocols import PROTOCOLS, decoder",
        "from ticdc_spark.protocols.shared.avro_names import sanitized",
        "from ticdc_spark.wire import avro_binary",
        'message = "the Avro of a registry"',
    ],
)
def test_the_search_leaves_alone(source: str) -> None:
    assert [*named(source)] == []


def test_a_protocols_package_may_name_itself_alone() -> None:
    source = 'from ticdc_spark.protocols.avro.decode import x\nname = "open"'
    assert [*named(source, own_packages("protocols/avro/encode.py"))] == []
    assert [*named(source, own_packages("protocols/debezium_avro/encode.py"))] == []
    assert [*named(source, own_packages("protocols/debezium/encode.py"))] == ["1: protocols.avro"]
    assert own_packages("protocols/shared/go_text.py") is None
    assert own_packages("spark/tasks.py") is None
