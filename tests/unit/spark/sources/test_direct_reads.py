"""How a backlog of Kafka is shared out to tasks."""

from hypothesis import given
from hypothesis import strategies as st

from ticdc_spark.spark.sources.direct_reads import share_out

BACKLOGS = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 5)),
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)).map(lambda pair: (min(pair), max(pair))),
)


@given(BACKLOGS, st.integers(1, 64))
def test_every_offset_is_in_one_part(backlog: dict[tuple[str, int], tuple[int, int]], parallelism: int) -> None:
    parts = share_out(backlog, parallelism)
    assert len(parts) <= parallelism
    assert all(first < end for part in parts for _, first, end in part)
    for place, (first, end) in backlog.items():
        found = sorted((begins, ends) for part in parts for at, begins, ends in part if at == place)
        borders = [first, *(ends for _, ends in found)]
        assert ([begins for begins, _ in found] == borders[:-1] and borders[-1] == end) or (not found and first == end)


@given(BACKLOGS, st.integers(1, 64))
def test_parts_are_of_one_size_and_worth_a_task(
    backlog: dict[tuple[str, int], tuple[int, int]], parallelism: int
) -> None:
    sizes = [sum(end - first for _, first, end in part) for part in share_out(backlog, parallelism)]
    assert len(set(sizes[:-1])) <= 1 and all(size >= 20_000 for size in sizes[:-1])
    assert not sizes or sizes[-1] <= max(sizes)
