"""The public names: exactly those that are documented, each importable, and Spark only for those that need it."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import ticdc_spark
from tests.support.python_examples import examples, run_examples
from tests.support.recorded_topics import write_json
from tests.unit.cli.test_inspect import SIMPLE, lines, topic

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "python.md").read_text(encoding="utf-8")
NEED_SPARK = {
    *("BatchReport", "ConsistentTables", "Summary", "TicdcDataSource"),
    *("consistent", "list_tables", "open_lake", "read_table", "read_topic", "run"),
}
"""Names whose modules may import Spark."""
PLAIN = sorted({*ticdc_spark.__all__} - NEED_SPARK)


def test_the_names_are_sorted_and_each_is_there() -> None:
    assert ticdc_spark.__all__ == sorted(set(ticdc_spark.__all__))
    for name in ticdc_spark.__all__:
        assert getattr(ticdc_spark, name) is not None
    assert {*ticdc_spark.__all__} <= {*dir(ticdc_spark)}


def test_type_checkers_see_the_names_that_are_there() -> None:
    """The imports for type checkers, which nothing runs, lead to the objects that the lazy table gives."""
    tree = ast.parse(Path(ticdc_spark.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname or alias.name: getattr(import_module(str(node.module)), alias.name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen) == ticdc_spark.__all__
    assert {name: getattr(ticdc_spark, name) for name in seen} == seen


def test_a_name_that_is_not_public_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'target_encoder'"):
        ticdc_spark.target_encoder  # noqa: B018
    with pytest.raises(ImportError, match="no_such_name"):
        exec("from ticdc_spark import no_such_name")


def test_every_error_is_public() -> None:
    """Whoever calls the package can catch each of its errors."""
    errors = import_module("ticdc_spark.errors")
    defined = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert defined <= {*ticdc_spark.__all__}


def test_exactly_the_public_names_are_documented() -> None:
    table = PAGE.partition("## All public names")[2]
    assert sorted(re.findall(r"`(\w+)`", table)) == ticdc_spark.__all__


@pytest.mark.parametrize(
    "code",
    ["import ticdc_spark", f"from ticdc_spark import {', '.join(PLAIN)}\nfor name in {PLAIN}: assert name"],
    ids=["the package", "all names but those of Spark"],
)
def test_no_spark_is_imported(code: str) -> None:
    check = f"{code}\nimport sys\nassert not any(name.partition('.')[0] in ('pyspark', 'py4j') for name in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_the_search_for_spark_finds_it() -> None:
    code = "from ticdc_spark import open_lake\nimport sys\nassert 'pyspark' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_examples_without_spark_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_json(tmp_path / "recorded/orders.jsonl", lines(topic(SIMPLE, late=True)))
    monkeypatch.chdir(tmp_path)
    names = run_examples(examples(spark=False))
    assert capsys.readouterr().out.count("CREATE TABLE `t`") == 1
    # the rows that came before their schema were read, too
    assert [type(one.event).__name__ for one in names["found"]].count("RowChange") == 3
