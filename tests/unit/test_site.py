"""The documentation site is built without a warning, and a page needs nothing from the network."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build(root: Path) -> subprocess.CompletedProcess[str]:
    """Build the site in a copy of the sources, with broken links and anchors as errors."""
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(root / "zensical.toml")]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path


def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(sources: Path) -> None:
    done = build(sources)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = [*(sources / "site").rglob("*.html")]
    assert len(pages) > 25
    for page in pages:
        html = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"?([^\s\">]+)", html)
        loaded += re.findall(r"<link[^>]*\shref=\"?([^\s\">]+)", html)
        assert not [each for each in loaded if re.match(r"(?:https?:)?//", each)], page
        assert "<pre class=mermaid" not in html and '<pre class="mermaid' not in html, page


@pytest.mark.parametrize("link", ["no-such-page.md", "limits.md#no-such-heading"])
def test_a_broken_link_fails_the_build(sources: Path, link: str) -> None:
    page = sources / "docs" / "reference" / "types.md"
    page.write_text(f"{page.read_text(encoding='utf-8')}\n[broken]({link})\n", encoding="utf-8")
    done = build(sources)
    assert done.returncode != 0
    assert "types.md" in done.stdout + done.stderr


def test_a_list_in_a_list_is_indented_as_the_site_needs_it() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert not re.findall(r"^ {1,3}[-*] .*", prose, re.MULTILINE), page


def test_every_page_is_in_the_navigation() -> None:
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(_pages(config["project"]["nav"])) == sorted(there)


def _pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in _pages(part)]
