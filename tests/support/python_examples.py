"""The examples of ``docs/python.md``."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
_BLOCK = re.compile(r"(<!-- spark -->\n)?```python\n(.*?)```", re.DOTALL)


def examples(*, spark: bool) -> list[str]:
    """The examples that need Spark, or those that do not, in order."""
    found = _BLOCK.findall(_PAGE.read_text(encoding="utf-8"))
    chosen = [code for mark, code in found if bool(mark) == spark]
    assert len(chosen) >= 3
    return chosen


def run_examples(codes: Iterable[str]) -> dict[str, Any]:
    """Run examples one after the other, as in a notebook. Returns: what they defined."""
    names: dict[str, Any] = {}
    for code in codes:
        exec(compile(code, str(_PAGE), "exec"), names)
    return names
