"""What tasks have staged."""

from ticdc_spark.sinks.staged import Staged, answer, digest


def test_only_rows_of_runs_that_answered_count() -> None:
    answers = [cell for attempt, rows in ((7, 3), (8, 2)) for cell in answer(attempt, rows).column(0).to_pylist()]
    staged = Staged("place").with_answers(answers)
    assert (staged.rows, staged.counts) == (5, "_ticdc_attempt IN (7, 8)")


def test_names_that_are_cut_elsewhere_have_another_digest() -> None:
    assert len({digest("a", "bc"), digest("ab", "c"), digest("abc")}) == 3
