"""The examples of the pages that are run as they are written."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_BLOCK = re.compile(r"(?:<!-- (\w+) -->\n)?```python\n(.*?)```", re.DOTALL)


def examples(*, spark: bool) -> list[str]:
    """The examples of ``docs/how-to/python.md`` that need Spark, or those that do not, in order."""
    chosen = [code for mark, code in marked("how-to/python.md") if (mark == "spark") == spark]
    assert len(chosen) >= 3
    return chosen


def marked(page: str) -> list[tuple[str, str]]:
    """The examples of a page in order, each with the mark before it."""
    return _BLOCK.findall((_DOCS / page).read_text(encoding="utf-8"))


def run_examples(codes: Iterable[str]) -> dict[str, Any]:
    """Run examples one after the other, as in a notebook. Returns: what they defined."""
    names: dict[str, Any] = {}
    for code in codes:
        exec(compile(code, "an example", "exec"), names)
    return names
