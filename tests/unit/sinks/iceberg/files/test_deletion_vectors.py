"""Deletion vectors as bytes. ``tests/spark/test_deletion_vectors.py`` compares them with Iceberg's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.sinks.iceberg.files.vectors import decode, encode

NEAR = st.sets(st.integers(0, 200_000), max_size=300)
FAR = st.sets(st.integers(0, (1 << 62) - 1), max_size=30)


@given(NEAR, FAR)
def test_what_is_encoded_is_decoded(near: set[int], far: set[int]) -> None:
    positions = np.array(sorted(near | far), np.int64)
    assert decode(encode(positions)).tolist() == positions.tolist()


@pytest.mark.parametrize("rows", [1, 4095, 4096, 4097, 65_536, 65_537, 300_000])
@pytest.mark.parametrize("step", [1, 3])
def test_many_positions(rows: int, step: int) -> None:
    positions = np.arange(7, 7 + rows * step, step)
    blob = encode(positions)
    assert np.array_equal(decode(blob), positions)
    assert len(blob) < 100 + 2 * rows, "no container is larger than a list of its positions"


@pytest.mark.parametrize("at", [0, 3, 4, 9, 20, 30, -1])
def test_a_damaged_vector_is_no_vector(at: int) -> None:
    blob = bytearray(encode(np.array([1, 5, 70_000])))
    blob[at] ^= 1
    with pytest.raises(OSError, match="deletion vector"):
        decode(bytes(blob))


@pytest.mark.parametrize("size", [0, 7, 12, 19, 30])
def test_a_torn_vector_is_no_vector(size: int) -> None:
    with pytest.raises(OSError, match="deletion vector"):
        decode(encode(np.array([1, 5, 70_000]))[:size])
