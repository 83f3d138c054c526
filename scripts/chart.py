"""Draws docs/explanation/benchmarks.svg from the table of that page: two bars a row."""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "benchmarks.md"
PICTURE = PAGE.with_suffix(".svg")
_ROW = re.compile(r"^\| (.+?) \| ([\d,]+) \| ([\d,]+) \| (.+?) \|$", re.MULTILINE)
_LEFT, _WIDTH, _HIGH, _TOP = 20, 500, 74, 16
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {height}" \
font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="14" role="img">
  <title>Changes a second of ticdc-spark beside an alternative</title>
  <rect width="860" height="{height}" rx="8" fill="#ffffff"/>
"""


def rows(text: str) -> list[tuple[str, int, int, str]]:
    """Case, our number, the alternative's number, and the alternative."""
    table = text.partition("<!-- chart -->")[2].partition("\n\n## ")[0].partition("\n\nNumbers")[0]
    return [(case, *(int(each.replace(",", "")) for each in two), what) for case, *two, what in _ROW.findall(table)]


def picture(text: str) -> str:
    """The picture. The longer bar of each row has the same length, as the ratios matter."""
    found = rows(text)
    parts = [_HEAD.format(height=_TOP + _HIGH * len(found))]
    for at, (case, ours, other, what) in enumerate(found):
        top, most = _TOP + at * _HIGH, max(ours, other)
        parts.append(f'  <text x="{_LEFT}" y="{top + 14}" fill="#24292f" font-weight="bold">{case}</text>\n')
        for down, number, name, colour in ((22, ours, "ticdc-spark", "#0b5cad"), (42, other, what, "#8b95a1")):
            width = round(_WIDTH * number / most)
            parts.append(f'  <rect x="{_LEFT}" y="{top + down}" width="{width}" height="16" rx="3" fill="{colour}"/>\n')
            label = f"{number:,}/s  {name}"
            parts.append(f'  <text x="{_LEFT + width + 8}" y="{top + down + 13}" fill="#24292f">{label}</text>\n')
    return "".join(parts) + "</svg>\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PICTURE}\n")
