"""The pages of the reference are what the code makes of them."""

import inspect
from pathlib import Path

import pytest
from scripts import chart
from scripts.reference import CURES, TABLES, filled, pages
from scripts.reference_keys import SECTIONS, keys

from ticdc_spark import errors
from ticdc_spark.config import job
from ticdc_spark.config.ddl import DdlKeys
from ticdc_spark.config.toml import Section

PAGES = pages()
# What other sections are made of.
BASES = {Section, job.MessageSource, job.Job}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_what_the_code_makes_of_it(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == PAGES[page], "run make reference"


def test_every_table_is_on_a_page_once() -> None:
    text = "".join(PAGES.values())
    assert {name: text.count(f"<!-- {name} -->") for name in TABLES} == dict.fromkeys(TABLES, 1)


def test_a_mark_that_names_no_table_is_found() -> None:
    with pytest.raises(KeyError, match="keys nothing"):
        filled("<!-- keys nothing -->\n\n")


def test_every_section_of_a_job_file_has_its_table() -> None:
    sections = {
        found
        for _, found in inspect.getmembers(job, inspect.isclass)
        if issubclass(found, Section) and found.__module__ == job.__name__
    }
    assert set(SECTIONS.values()) == (sections - BASES) | {DdlKeys}


@pytest.mark.parametrize("name", SECTIONS)
def test_a_key_has_a_type_and_one_short_sentence(name: str) -> None:
    for row in keys(SECTIONS[name]):
        key, kind, _, text = row.split(" | ")
        assert kind, key
        assert text.endswith(".") and len(text.split()) <= 26, row


def test_every_error_that_ends_a_command_has_a_cure() -> None:
    every = [
        kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TicdcSparkError)
    ]
    # Not by what is imported elsewhere: a module may have a subclass of its own.
    bases = {base for kind in every for base in kind.__bases__}
    assert set(CURES) == {*every} - bases - {errors.MessageError}


def test_the_chart_is_drawn_from_the_numbers_of_its_page() -> None:
    text = chart.PAGE.read_text(encoding="utf-8")
    assert len(chart.rows(text)) == 6
    assert chart.PICTURE.read_text(encoding="utf-8") == chart.picture(text), "run make reference"
