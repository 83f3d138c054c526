"""Benchmarks fit the code that they measure: nobody runs them often enough to notice."""

from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.parametrize("module", sorted(path.stem for path in FOLDER.glob("[a-z]*.py")))
def test_a_benchmark_can_be_imported(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    assert import_module(f"benchmarks.{module}").__doc__
