"""Any text as a changefeed's file or sink URI: read, or refused with UsageError, and nothing else."""

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.changefeed_files import SERVER, load_text, sink_uri, toml
from ticdc_spark.changefeed.config.keys import BY_URI, KEYS
from ticdc_spark.config.secrets import forget
from ticdc_spark.errors import UsageError

NEAR = st.sampled_from(
    ["kafka://", "a:1", "/t", "?", "&", "=", "%", "${env:", "}", "${file:", "#", "@", "protocol=simple"]
)
SCALARS = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8), NEAR
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)
IDS = st.sampled_from([key.id for key in KEYS if key.section != "sink URI"])
QUIET = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def survives(folder: Path, text: str, uri: str) -> None:
    logging.disable(logging.CRITICAL)
    try:
        load_text(folder, text, uri)
    except UsageError as error:
        assert str(error)  # noqa: PT017  either is fine, and nothing else
    finally:
        logging.disable(logging.NOTSET)
        forget()


def storable(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


@QUIET
@given(st.text().filter(storable))
def test_any_text_as_a_file(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    survives(tmp_path_factory.getbasetemp(), text, SERVER)


@QUIET
@given(st.lists(st.one_of(NEAR, st.text(max_size=6)), max_size=12).map("".join))
def test_any_text_as_a_uri(tmp_path_factory: pytest.TempPathFactory, uri: str) -> None:
    survives(tmp_path_factory.getbasetemp(), "", uri)


@QUIET
@given(st.dictionaries(st.sampled_from(sorted(BY_URI)), st.text(max_size=10), max_size=6))
def test_any_values_in_a_uri(tmp_path_factory: pytest.TempPathFactory, values: dict[str, str]) -> None:
    values = {name: value for name, value in values.items() if storable(value)}
    survives(tmp_path_factory.getbasetemp(), "", sink_uri(**values))


@QUIET
@given(st.dictionaries(IDS, VALUES, max_size=6))
def test_any_values_in_a_file(tmp_path_factory: pytest.TempPathFactory, values: dict[str, Any]) -> None:
    text = toml(values)
    survives(tmp_path_factory.getbasetemp(), "".join(filter(storable, text)), sink_uri(protocol="simple"))
